/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON to a stream, indented by two; see cmd.h. */
#include "cmd.h"

static void write_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(file, "\\u%04x", *c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

/* What precedes a member: comma, new line, indentation, key. */
static void begin(json *j, const char *key)
{
    if (j->depth > 0) fprintf(j->file, "%s\n%*s", j->count[j->depth - 1]++ ? "," : "", (int)j->depth * 2, "");
    if (key) {
        write_text(j->file, key);
        fputs(": ", j->file);
    }
}

void json_open(json *j, const char *key, char bracket)
{
    begin(j, key);
    fputc(bracket, j->file);
    j->count[j->depth++] = 0;
}

void json_close(json *j, char bracket)
{
    uint32_t members = j->count[--j->depth];
    if (members) fprintf(j->file, "\n%*s", (int)j->depth * 2, "");
    fputc(bracket, j->file);
    if (j->depth == 0) fputc('\n', j->file);
}

void json_text(json *j, const char *key, const char *text)
{
    begin(j, key);
    if (text)
        write_text(j->file, text);
    else
        fputs("null", j->file);
}

void json_texts(json *j, const json_member *members)
{
    for (; members->key; members++) json_text(j, members->key, members->text);
}

void json_number(json *j, const char *key, uint64_t number)
{
    begin(j, key);
    fprintf(j->file, "%llu", (unsigned long long)number);
}

void json_real(json *j, const char *key, double number)
{
    begin(j, key);
    fprintf(j->file, "%.9g", number);
}

void json_flag(json *j, const char *key, int on)
{
    begin(j, key);
    fputs(on ? "true" : "false", j->file);
}
