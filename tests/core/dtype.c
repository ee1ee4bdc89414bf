/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dtypes. The tables below were recorded from PyTorch 2.13: each letter is the number of a dtype in the list
 * of dtype.h ('a' is bool), '.' is "no common dtype".
 */
#include "core/dtype.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <tenon/tensor.h>

static const char *const promoted[TNI_DTYPE_COUNT] = {
    "abcdef...jklmnop.........", "bbddef...jklmnop.........", "cdcdef...jklmnop.........",
    "ddddef...jklmnop.........", "eeeeef...jklmnop.........", "ffffff...jklmnop.........",
    "......g..jklm............", ".......h.jklm............", "........ijklm............",
    "jjjjjjjjjjllmnop.........", "kkkkkkkkklklmoop.........", "llllllllllllmoop.........",
    "mmmmmmmmmmmmmppp.........", "nnnnnn...noopnop.........", "oooooo...ooopoop.........",
    "pppppp...ppppppp.........", "................q........", ".................r.......",
    "..................s......", "...................t.....", "....................u....",
    ".....................v...", "......................w..", ".......................x.",
    "........................y",
};

static const char *const castable[TNI_DTYPE_COUNT] = {
    "1111111111111111111111111", "0111111111111111111111111", "0111111111111111111111111",
    "0111111111111111111111111", "0111111111111111111111111", "0111111111111111111111111",
    "0111111111111111111111111", "0111111111111111111111111", "0111111111111111111111111",
    "0000000001111111111111111", "0000000001111111111111111", "0000000001111111111111111",
    "0000000001111111111111111", "0000000000000111000000000", "0000000000000111000000000",
    "0000000000000111000000000", "0000000001111111111111111", "0000000001111111111111111",
    "0000000001111111111111111", "0000000001111111111111111", "0000000001111111111111111",
    "0111111111111111111111111", "0111111111111111111111111", "0111111111111111111111111",
    "0111111111111111111111111",
};

/*
 * Result types of two operands, six letters each: default dtype; kind (d: with dimensions, z: 0-dim, w: scalar) and
 * dtype of the first; the same of the second; the result.
 */
static const char *const results =
    "lzedcc lzpwpp lzgddd ldmwpp ldizhi ldawaa lzmwam lzhwfh ldlzhl lzjwaj ldfwml lznzg. ldpzmp ldlzll "
    "lzdzff lzpdap ldjdmm ldhwfh lzmzlm lziwfi ldgznn lzlzgl lzldnn ldkdoo ldbdcd lzodao ldizdi ldjdcj "
    "lziwml lzozko lzdzad ldkzno lddwpo ldazh. ldezbe lzndhn lzawpo ldbdjj ldjzjj ldiwai ldgwag lzmdgm "
    "lzdwpo lzazkk ldazff lzedkk ldpwap ldcdee lzgwml lzldkk lzjdhj lddzkk ldcdmm lzkddk lzhzc. lzjzdj "
    "lzddbb lzadcc ldbwpo lzfddd ldhzfh lzmwpp ldkwmk ldbzab lzkzoo ldmzcm lzoddo lzpdlo ldgdjj lzldcl "
    "lzodco ldmzjm lzfdkk ldkddk ldhzah ldcwac lzazaa ldpdpp ldkdck lzezee ldddjj lzewfe lzfwff lzbdhh "
    "lzowpo lzozao lzfdii ldnwmn ldezee lzidmm lzcdhh lzhwpo lzhwml ldhwml lzfzg. ldjwpn lzcddd lzedii "
    "lzbwml ldmwam lziwai lzmdnn ldkwpo lzgwpo lzddjj ldazaa lzgdff lzozfo ldnwpn lzdwfd lzczll ldldkl "
    "lzozoo lzmdkk lziwpo lzjwfj lzlwpo ldmzkm ldhzjj lzedmm lzczac ldnzjn ldizpp ldcwpo lzmdim lzgzh. "
    "lzczcc lzfwml ldhwah ldiwfi lzozeo ldfwpo lzldjj lzddgg lzdzh. ldpddp ldbwab lzpwmp ldddff lzmzhm "
    "ldmdfm lzjdoo lzozi. ldddg. ldfdef ldizei ldjwaj lzedbb ldndcn lzpwfp lzowmo ldidh. lzfwaf ldlwpo "
    "ldczic ldfddf ldgdn. lzcdpp ldkwak ldazi. lzkdck lzmzbm lzjddj ldpwpp ldadjj lzldmm ldnwan lzbzjj "
    "lzjzkl ldkdak lzkwak ldlwal lzewml lzmwmm ldfzaf ldhde. ldcwfc lznzan ldgzpp lzbdll lzjwpn lznzjn "
    "ldewfe lzlzno ldadcc lzmzim lzlzpp lzozdo ldednn lzjwmj lznzi. lzpzg. lddzid ldddmm lznwmn ldfdpp "
    "lzjdpp ldpzdp lzgzf. ldjwmj ldpwmp lzizb. ldhdn. lzeznn lzpzjp ldowmo lzewpo ldpdkp ldedi. ldbdff "
    "lzgzjj lzawff lzcwml ldidmm ldkdll ldczcc ldldal ldmdlm lddwml ldmwmm ldedbe lzhzg. lzawml lzpwap "
    "lzlwal ldjdoo ldczec lzkdll lzezmm lzdzee lddzoo ldmdop ldpdbp lzdwml ldlwfl ldddll ldodh. ldkzdk "
    "ldgzmm ldhzdh lzkwpo ldlzpo ldowpo ldide. ldmdnp lzczff lziza. ldnzfn ldhdc. ldmzam lzhdmm lzazjj "
    "lzmzgm lzlwml lzfzcf lzezi. ldazee ldewpo ldmwfm lzjzgj lzldpp lzjdgj ldizbi ldida. ldmzpp ldbzfb "
    "lzizn. ldazoo lzgdmm lddzcd ldowfo ldodbo ldbzpp lzdzkk ldbzll lzcwac lzkzno ldnzcn ldiwml lzgzc. "
    "ldjzej ldlzbl ldfdg. lzezde lzgzb. ldadpp ldidb. lzgdoo lzpzlp ldcdg. lzjznn lzndko lznwpn ldozpo "
    "lzjzmm ldjzaj lzgwfg ldjzmj ldkdjl lzjzjj ldozco lzedjj lzezae jzkwak jzjdij jzjdcj jzhzi. jdhwfh "
    "jdedjj jdgzag jdadcc jzbdkk jzadgg jzidjj jzfdgg jdhzoo jdkdno jdfdcf jzhdff jdbdkk jdodeo jdjwaj "
    "jdowfo jdddbd jddzcd jdiwai jzizg. jzlwpo jdcznn jdkdfk jzcwmj jzkzll jzlzll jzpdap jzjwfj jzewfe "
    "jdewmj jzhdll jzidpp jznzen jzddee jdfdpp jzgwmj jdldkl jzmwfm jzbzh. jzmdhm jdhdjj jddzed jdide. "
    "jzczjj jzpdfp jzndcn jdhde. jzazff jzfdbb jdhzgh jdgwag jzgwag jzbwmj jdjzkj jdkzno kdcdkk kzkzhk "
    "kzizjj kdawmk kzbzdd kzgwpo kdjzij kdezll kzlzgl kdedpp kdhdc. kzpwfp kdpzmp kzodfo kzldll kzjzcj "
    "kdgzfg kzbdll kdpwfp kdbwfb kdmzop kdizei kzedff kznwmn kdfzjj kzedae kdnwpn kzodoo kdbdcd kzmzem "
    "kzfwaf kzgzo. kdjwmj kdfwaf kzhzo. kzkddk kzozi. kdkzdk kdnzpn kdewfe kzhwfh kzdddd kzowmo kdizmm "
    "kzpwmp kzmdkk kddzpp kdewae kzkwmk kzkzoo kdmdgm kdgzhg kzbdkk kzlwpo kdgzjj kdmdmm kdmdlm kzcdkk "
    "kzjddj kzldcl mzddff mzmwmm mdgdgg mdfzef mdeznn mdkzek mdfwpp mdpdbp mdpzep mzedii mdmwpp mdgwag "
    "mzjwfj mdczdc mzkwpo mzize. mzlzmm mdldgl mdedh. mzhwpp mddwad mzbznn mzezh. mzkdbk mzldbl mzhddd "
    "mdadll mzjwaj mzpdcp mdpwpp mznzh. mdkdoo mdgdll mdlddl mzcdac mzcwac mznwan mzazi. mzhzi. mzowfo "
    "mzpdhp mzcdee mzlwml mdezde mzbwmm mdlwfl mzizc. mdawpp mzdwpp mzbddd mdfdef mzczll mdedjj mdizbi "
    "mzjzpp mdcwac ";

static tn_dtype dtype_of_letter(char c)
{
    return c == '.' ? 0 : tni_dtype_at(c - 'a');
}

Test(dtype, list)
{
    cr_assert_eq(TNI_DTYPE_COUNT, 25);
    for (int32_t i = 0; i < TNI_DTYPE_COUNT; i++) {
        tn_dtype d = tni_dtype_at(i);
        cr_assert_eq(tni_dtype_index(d), i);
        cr_assert_eq(tn_dtype_parse(tn_dtype_name(d)), d);
    }
    static const tn_dtype bad[] = {0,
                                   1,
                                   TN_DTYPE(3, 32),
                                   TN_DTYPE(TN_CODE_FLOAT, 8),
                                   TN_DTYPE(TN_CODE_INT, 24),
                                   TN_FLOAT32 | 2u << 16,
                                   TN_DTYPE(200, 8),
                                   TN_DTYPE(16, 8),
                                   TN_DTYPE(127, 8),
                                   UINT32_MAX};
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cr_assert_eq(tni_dtype_index(bad[i]), -1);
        cr_assert_null(tn_dtype_name(bad[i]));
    }
    cr_assert_eq(tni_dtype_at(-1), 0);
    cr_assert_eq(tni_dtype_at(25), 0);
}

typedef struct named_dtype {
    const char *name;
    tn_dtype dtype;
} named_dtype;

Test(dtype, names)
{
    static const named_dtype names[] = {
        {"bool", TN_BOOL},
        {"float", TN_FLOAT32},
        {"float32", TN_FLOAT32},
        {"double", TN_FLOAT64},
        {"half", TN_FLOAT16},
        {"bfloat16", TN_BFLOAT16},
        {"long", TN_INT64},
        {"int", TN_INT32},
        {"short", TN_INT16},
        {"uint8", TN_UINT8},
        {"cfloat", TN_COMPLEX64},
        {"cdouble", TN_COMPLEX128},
        {"chalf", TN_COMPLEX32},
        {"float8_e4m3fn", TN_FLOAT8_E4M3FN},
        {"quint4x2", TN_QUINT4X2},
        {"uint64", TN_UINT64},
        {"bool_", 0},
        {"", 0},
        {"Float", 0},
        {NULL, 0},
    };
    for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        cr_assert_eq(tn_dtype_parse(names[i].name), names[i].dtype, "%s", names[i].name);
    }
    cr_assert_str_eq(tn_dtype_name(TN_BOOL), "bool");
    cr_assert_str_eq(tn_dtype_name(TN_COMPLEX64), "complex64");
}

Test(dtype, kinds)
{
    cr_assert(tn_dtype_is_floating(TN_FLOAT8_E8M0FNU));
    cr_assert(tn_dtype_is_floating(TN_BFLOAT16));
    cr_assert_not(tn_dtype_is_floating(TN_COMPLEX64));
    cr_assert_not(tn_dtype_is_floating(TN_QINT8));
    cr_assert(tn_dtype_is_complex(TN_COMPLEX32));
    cr_assert_not(tn_dtype_is_complex(TN_FLOAT64));
    cr_assert_eq(tni_dtype_category(TN_BOOL), TNI_CATEGORY_BOOL);
    cr_assert_eq(tni_dtype_category(TN_UINT64), TNI_CATEGORY_INT);
    cr_assert_eq(tni_dtype_category(TN_QINT32), TNI_CATEGORY_OTHER);
    cr_assert_eq(tni_dtype_to_real(TN_COMPLEX32), TN_FLOAT16);
    cr_assert_eq(tni_dtype_to_real(TN_COMPLEX128), TN_FLOAT64);
    cr_assert_eq(tni_dtype_to_real(TN_INT8), TN_INT8);
    cr_assert_eq(tni_dtype_to_complex(TN_FLOAT16), TN_COMPLEX32);
    cr_assert_eq(tni_dtype_to_complex(TN_BFLOAT16), TN_COMPLEX64);
    cr_assert_eq(tni_dtype_to_complex(TN_FLOAT64), TN_COMPLEX128);
    double pair[2] = {1, 2};
    cr_assert_eq(tni_dtype_of_scalar(tn_value_bool(1), TN_FLOAT32), TN_BOOL);
    cr_assert_eq(tni_dtype_of_scalar(tn_value_int(1), TN_FLOAT32), TN_INT64);
    cr_assert_eq(tni_dtype_of_scalar(tn_value_float(1), TN_FLOAT16), TN_FLOAT16);
    cr_assert_eq(tni_dtype_of_scalar(tn_value_complex(pair), TN_FLOAT64), TN_COMPLEX128);
}

Test(dtype, promotion_of_all_pairs)
{
    for (int32_t i = 0; i < TNI_DTYPE_COUNT; i++) {
        for (int32_t j = 0; j < TNI_DTYPE_COUNT; j++) {
            tn_dtype got = tn_promote_types(tni_dtype_at(i), tni_dtype_at(j));
            cr_assert_eq(got, dtype_of_letter(promoted[i][j]), "%d %d", i, j);
        }
    }
    cr_assert_eq(tn_promote_types(TN_FLOAT32, 0), 0);
}

Test(dtype, casting_of_all_pairs)
{
    for (int32_t i = 0; i < TNI_DTYPE_COUNT; i++) {
        for (int32_t j = 0; j < TNI_DTYPE_COUNT; j++) {
            cr_assert_eq(tn_can_cast(tni_dtype_at(i), tni_dtype_at(j)), castable[i][j] - '0', "%d %d", i, j);
        }
    }
}

static void add_operand(tni_promotion *p, char kind, char letter)
{
    tni_promotion_add(p, dtype_of_letter(letter), kind != 'd', kind == 'w');
}

Test(dtype, result_types)
{
    for (const char *c = results; *c; c += c[6] ? 7 : 6) {
        tni_promotion forward = {0}, backward = {0};
        tn_dtype base = dtype_of_letter(c[0]), expected = dtype_of_letter(c[5]);
        add_operand(&forward, c[1], c[2]);
        add_operand(&forward, c[3], c[4]);
        add_operand(&backward, c[3], c[4]);
        add_operand(&backward, c[1], c[2]);
        cr_assert_eq(tni_promotion_result(&forward, base), expected, "%.6s", c);
        cr_assert_eq(tni_promotion_result(&backward, base), expected, "%.6s", c);
    }
}

/* Operands that clash stay clashing, whatever else there is. */
Test(dtype, clashing_operands)
{
    static const char kinds[] = {'d', 'z', 'w'};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            tni_promotion p = {0};
            tni_promotion_add(&p, TN_UINT16, kinds[i] != 'd', kinds[i] == 'w');
            tni_promotion_add(&p, TN_INT16, kinds[i] != 'd', kinds[i] == 'w');
            tni_promotion_add(&p, TN_FLOAT32, kinds[k] != 'd', kinds[k] == 'w');
            tn_dtype result = tni_promotion_result(&p, TN_FLOAT32);
            tni_promotion_add(&p, TN_INT64, 0, 0);
            cr_expect(!result || tn_promote_types(TN_UINT16, TN_INT16), "%c %c: 0x%x", kinds[i], kinds[k],
                      result);
        }
    }
}

Test(dtype, signs)
{
    static const tn_dtype without[] = {TN_UINT8,  TN_UINT64,   TN_BOOL,
                                       TN_QUINT8, TN_QUINT4X2, TN_FLOAT8_E8M0FNU};
    static const tn_dtype with[] = {TN_INT8, TN_FLOAT32, TN_COMPLEX64, TN_QINT8, TN_QINT32, TN_FLOAT8_E5M2};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        cr_expect_eq(tni_dtype_is_signed(without[i]), 0, "%s", tn_dtype_name(without[i]));
        cr_expect_eq(tni_dtype_is_signed(with[i]), 1, "%s", tn_dtype_name(with[i]));
    }
}
