package process

import (
	"os"
	"path/filepath"
)

// IsCredential reports whether a file is a credential that systemd passed to this process. Only the
// process and root can open its directory. Its mode can show rights of the group all the same,
// because an access control list gives the process its right to read.
func IsCredential(path string) bool {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	return dir != "" && filepath.Dir(filepath.Clean(path)) == filepath.Clean(dir)
}
