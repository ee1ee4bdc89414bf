#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the library and the program, runs the program, and checks the operator.
set -eu
cd "$(dirname "$0")"
umask 022 # a library that a group may write is refused
[ -f build/build.ninja ] || meson setup build
ninja -C build
build/use build/libsmooth.so
exec tenon check --op mylib::smooth_max build/libsmooth.so
