package isogen_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

func TestConfigImage_containsPayload(t *testing.T) {
	image, err := isogen.ConfigImage(payload)
	require.NoError(t, err)
	iso := contents(t, image)
	require.Less(t, len(iso), 200_000)
	v, err := iso9660.Open(bytes.NewReader(iso), int64(len(iso)))
	require.NoError(t, err)
	require.Equal(t, "config-2", v.ID)
	require.Equal(t, payload.Ignition, fileIn(t, iso, "openstack/latest/user_data"), "the path that Ignition reads")
	got, err := isogen.Embedded(image.NewReader(), image.Size())
	require.NoError(t, err)
	require.Equal(t, payload.Ignition, got.Ignition)
	require.Equal(t, []isogen.Segment{{Name: "config", Start: 0, End: image.Size()}}, image.Segments())

	again, err := isogen.ConfigImage(payload)
	require.NoError(t, err)
	require.Equal(t, image.ETag(), again.ETag())
	first, err := image.SHA256(t.Context())
	require.NoError(t, err)
	second, err := again.SHA256(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.NoError(t, image.Intact())
}

func TestAwaitConfigImage(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	image, err := base.AwaitConfigImage(isogen.KernelArgument{Operation: isogen.Append, Value: "quiet"})
	require.NoError(t, err)
	got, err := isogen.Embedded(image.NewReader(), image.Size())
	require.NoError(t, err)
	require.Empty(t, got.Ignition)
	require.Contains(t, got.KernelArguments, "quiet")
	modes := map[string]fs.FileMode{}
	for _, f := range got.Files {
		modes[f.Path] = f.Mode
	}
	require.Equal(t, fs.FileMode(0o755), modes["usr/local/bin/landfall-config-image"])
	require.Contains(t, modes, "etc/systemd/system/landfall-config-image.service")

	t.Run("the script is valid", func(t *testing.T) {
		script := filepath.Join(t.TempDir(), "script")
		for _, f := range got.Files {
			if f.Path == "usr/local/bin/landfall-config-image" {
				require.NoError(t, os.WriteFile(script, f.Data, 0o600))
			}
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-n", script).CombinedOutput()
		require.NoError(t, err, string(out))
	})
}
