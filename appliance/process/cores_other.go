//go:build !unix

package process

// ForbidCoreFiles does nothing: the system writes no core files.
func ForbidCoreFiles() error { return nil }
