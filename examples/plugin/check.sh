#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the plugin and checks it: what a machine runs at every change. An argument is handed to `tenon check`.
set -eu
cd "$(dirname "$0")"
umask 022 # a plugin that a group may write is refused
[ -f build/build.ninja ] || meson setup build
ninja -C build
TENON_PLUGIN_ADD=$PWD/build tenon doctor
exec tenon check "$PWD/build/libtenon_acme.so" --tier 1 "$@"
