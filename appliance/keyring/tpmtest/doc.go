// Package tpmtest tests the method TPM of package keyring with the TPM emulator swtpm. The tests
// have the build tag tpm.
package tpmtest
