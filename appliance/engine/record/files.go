package record

import (
	"errors"
	"strings"

	"landfall/store"
)

// DeleteFiles deletes all files of a cluster. removeGenerated deletes only the files that its
// installation generated.
func DeleteFiles(tx *store.Tx, id string) error {
	return deleteFilesIf(tx, id, func(string) bool { return true })
}

func DeleteGenerated(tx *store.Tx, id string) error {
	return deleteFilesIf(tx, id, func(name string) bool { return !strings.Contains(name, "/") })
}

func deleteFilesIf(tx *store.Tx, id string, chosen func(name string) bool) error {
	var keys []string
	err := InstallerFiles.Keys(tx, id+"/", func(key string) error {
		if chosen(strings.TrimPrefix(key, id+"/")) {
			keys = append(keys, key)
		}
		return nil
	})
	for _, key := range keys {
		err = errors.Join(err, InstallerFiles.Delete(tx, key))
	}
	return err
}
