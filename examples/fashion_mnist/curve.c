/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include "demo.h"

#define WIDTH  760.0
#define HEIGHT 360.0
#define LEFT   60.0
#define TOP    30.0

static float largest(const float *loss, int64_t steps)
{
    float most = 1;
    for (int64_t i = 0; i < steps; i++) {
        if (loss[i] > most && loss[i] < 100) most = loss[i];
    }
    return most;
}

static void axes(FILE *f, float most, int64_t steps)
{
    fprintf(f, "<path d='M%g %gV%gH%g' fill='none' stroke='#333'/>\n", LEFT, TOP, TOP + HEIGHT, LEFT + WIDTH);
    for (int i = 0; i <= 4; i++) {
        double y = TOP + HEIGHT * (1 - i / 4.0), x = LEFT + WIDTH * i / 4.0;
        fprintf(f, "<path d='M%g %gH%g' stroke='#ddd'/><text x='%g' y='%g' text-anchor='end'>%.2f</text>\n",
                LEFT, y, LEFT + WIDTH, LEFT - 6, y + 4, most * i / 4.0);
        fprintf(f, "<text x='%g' y='%g' text-anchor='middle'>%lld</text>\n", x, TOP + HEIGHT + 18,
                (long long)(steps * i / 4));
    }
}

int curve_write(const char *path, const float *loss, int64_t steps)
{
    FILE *f = fopen(path, "w");
    float most = largest(loss, steps);
    double smooth = steps ? loss[0] : 0;
    if (!f) return 1;
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %g %g' font-family='sans-serif' "
            "font-size='12'>\n",
            LEFT + WIDTH + 20, TOP + HEIGHT + 40);
    fprintf(f,
            "<rect width='100%%' height='100%%' fill='white'/><text x='%g' y='18'>training loss by step "
            "(light), smoothed (dark)</text>\n",
            LEFT);
    axes(f, most, steps);
    for (int pass = 0; pass < 2; pass++) {
        fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='%s' points='",
                pass ? "#1f4e9c" : "#b8cdf0", pass ? "2" : "1");
        for (int64_t i = 0; i < steps; i++) {
            double v = loss[i] < most ? loss[i] : most;
            smooth = i ? 0.97 * smooth + 0.03 * v : v;
            fprintf(f, "%.1f,%.1f ", LEFT + WIDTH * (double)i / (double)(steps > 1 ? steps - 1 : 1),
                    TOP + HEIGHT * (1 - (pass ? smooth : v) / most));
        }
        fprintf(f, "'/>\n");
    }
    fprintf(f, "</svg>\n");
    return fclose(f) != 0;
}
