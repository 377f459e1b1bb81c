//go:build !linux

package backup

func isMountRoot(string) (root, known bool) { return false, false }
