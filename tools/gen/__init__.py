# SPDX-License-Identifier: Apache-2.0
"""What is made from the table of operators: read by schema and table, printed by header, tables and doc."""
