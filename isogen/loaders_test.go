package isogen

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoadersIn_partition(t *testing.T) {
	files := map[string][]byte{
		"efi/boot/bootx64.efi": []byte("removable"), "efi/boot/grubx64.efi": []byte("grub of removable"),
		"efi/redhat/shimx64.efi": []byte("shim"), "efi/redhat/grubx64.efi": []byte("grub"),
		"efi/redhat/mmx64.efi": []byte("mm"), "efi/redhat/grub.cfg": []byte("menu"),
	}
	for range 10 { // the order of a map differs each time
		require.Equal(t, &BootLoaders{First: "shimx64.efi", Files: map[string][]byte{
			"bootx64.efi": []byte("removable"), "shimx64.efi": []byte("shim"), "grubx64.efi": []byte("grub"),
			"mmx64.efi": []byte("mm"),
		}}, loadersIn(files, "x64"))
	}
	delete(files, "efi/redhat/shimx64.efi")
	require.Equal(t, "bootx64.efi", loadersIn(files, "x64").First)
	require.Nil(t, loadersIn(files, "aa64"))
}
