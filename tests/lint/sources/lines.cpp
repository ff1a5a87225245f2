// SPDX-License-Identifier: Apache-2.0
int a;  // TODO later
int b;  // FIXME later
	int c;
// xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
int d; 
