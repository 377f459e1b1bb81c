package command

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/commandtest"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
	"landfall/appliance/isofile"
	"landfall/appliance/osimage"
	"landfall/isogen"
	"landfall/isogen/skeleton"
	"landfall/web/console"
)

const ignitionConfig = `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/motd","mode":420,"contents":{"source":"data:,hello"}}]}}`

func fileOf(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// landfallReading runs a command that reads its standard input from in.
func landfallReading(t *testing.T, in io.Reader, arguments ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	root, started := newRoot(topFiles())
	root.SetIn(in)
	code := execute(t.Context(), root, started, arguments, &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

func requireDone(t *testing.T, got result) string {
	t.Helper()
	require.Equal(t, 0, got.code, got.errOut)
	return got.out
}

func TestISO_importListVerifyRemove(t *testing.T) {
	url, file := commandtest.StartAppliance(t), commandtest.LiveISO(t)
	printed := requireDone(t, landfall(t, "iso", "import", file, "--url", url))
	require.Contains(t, printed, "ready: OpenShift 4.18, x86_64, rhcos-418.94.202511191518-0")
	require.Contains(t, printed, commandtest.DigestOf(t, file))
	var images []osimage.Image
	require.NoError(t, json.Unmarshal([]byte(requireDone(t, landfall(t, "iso", "list", "--json", "--url", url))),
		&images))
	require.Len(t, images, 1)
	require.Equal(t, "live.iso", images[0].Name)
	require.Contains(t, requireDone(t, landfall(t, "iso", "list", "--url", url)), images[0].ID+"  4.18")
	require.Equal(t, images[0].ID+" live.iso: valid, sha256 "+commandtest.DigestOf(t, file)+"\n",
		requireDone(t, landfall(t, "iso", "verify", "--url", url)))

	again := landfall(t, "iso", "import", file, "--url", url)
	require.Equal(t, outcome.Failure, again.code)
	require.Contains(t, again.errOut, "the image exists already as "+images[0].ID)

	require.NoError(t, os.WriteFile(images[0].Path, []byte("damaged"), 0o600))
	verified := landfall(t, "iso", "verify", "live.iso", "--url", url)
	require.Equal(t, outcome.Failure, verified.code)
	require.Contains(t, verified.out, "bad (")
	require.Empty(t, verified.errOut)

	require.Equal(t, "removed "+images[0].ID+" live.iso\n", requireDone(t, landfall(t, "iso", "remove",
		images[0].ID[:5], "--yes", "--url", url)))
	gone := landfall(t, "iso", "remove", images[0].ID, "--yes", "--url", url)
	require.Equal(t, outcome.Failure, gone.code)
	require.Contains(t, gone.errOut, "the OS image "+images[0].ID)
}

func TestISOImport_standardInputAndURL(t *testing.T) {
	url := commandtest.StartAppliance(t)
	file := commandtest.LiveISOOf(t, skeleton.ISO{RootFSSize: 20 << 20}) // more than one piece
	in, err := os.Open(file)
	require.NoError(t, err)
	defer in.Close()
	printed := requireDone(t, landfallReading(t, in, "iso", "import", "-", "--openshift-version", "4.20", "--url", url))
	require.Contains(t, printed, "ready: OpenShift 4.20")
	require.Contains(t, printed, commandtest.DigestOf(t, file))

	other := commandtest.LiveISO(t)
	files := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(other))))
	defer files.Close()
	printed = requireDone(t, landfall(t, "iso", "import", files.URL+"/live.iso", "--url", url))
	require.Contains(t, printed, "ready: OpenShift 4.18")
	third := commandtest.LiveISOOf(t, skeleton.ISO{VolumeID: "rhcos-418.94.202512010000-0"})
	require.NoError(t, os.Rename(third, filepath.Join(filepath.Dir(other), "third.iso")))
	wrong := landfall(t, "iso", "import", files.URL+"/third.iso", "--openshift-version", "4.17", "--url", url)
	require.Equal(t, outcome.Failure, wrong.code)
	require.Contains(t, wrong.errOut, "is for OpenShift 4.18, not for 4.17")
	require.NotContains(t, requireDone(t, landfall(t, "iso", "list", "--url", url)), "third.iso",
		"the list contains a rejected image")
}

func TestISOImport_rejectsOtherFiles(t *testing.T) {
	url := commandtest.StartAppliance(t)
	for name, c := range map[string]struct {
		arguments []string
		code      int
		message   string
	}{
		"no ISO": {[]string{fileOf(t, "disk.qcow2", strings.Repeat("qcow2", 20_000))}, outcome.Failure,
			"the base ISO disk.qcow2 cannot be used"},
		"empty":     {[]string{fileOf(t, "empty.iso", "")}, outcome.Failure, "empty.iso is empty; name a live ISO"},
		"no file":   {[]string{"/nowhere.iso"}, outcome.Failure, "no such file"},
		"directory": {[]string{t.TempDir()}, outcome.Usage, "is a directory"},
		"no source": {nil, outcome.Usage,
			"the source is missing; name a file, - for standard input, or a URL, or give --release"},
		"two sources": {[]string{"a.iso", "--release", "4.20.8"}, outcome.Usage, "or give --release"},
		"no version": {[]string{commandtest.LiveISOOf(t, skeleton.ISO{})}, outcome.Failure,
			"state the version, as in --openshift-version 4.20"},
		"unknown release": {[]string{"--release", "4.1.1"}, outcome.Failure,
			"the site has no release 4.1.1 for x86_64"},
	} {
		t.Run(name, func(t *testing.T) {
			got := landfall(t, append([]string{"iso", "import", "--url", url}, c.arguments...)...)
			require.Equal(t, c.code, got.code)
			require.Contains(t, got.errOut, c.message)
			require.Empty(t, got.out)
		})
	}
}

func TestISOImport_resumesSameFileOnly(t *testing.T) {
	url, file := commandtest.StartAppliance(t), commandtest.LiveISO(t)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	interrupt := func() {
		t.Helper()
		client, up := remote.At(url), &osimage.Upload{}
		const uploads = console.BasePath + "/os-images/uploads"
		require.NoError(t, client.Call(t.Context(), http.MethodPost, uploads,
			osimage.UploadRequest{Name: "live.iso", SizeBytes: int64(len(content))}, up))
		response, err := client.Do(t.Context(), http.MethodPatch, uploads+"/"+up.ID, http.Header{
			"Content-Type": {"application/offset+octet-stream"}, "Upload-Offset": {"0"}},
			bytes.NewReader(content[:1<<20]))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Less(t, response.StatusCode, http.StatusBadRequest)
	}
	interrupt()
	got := landfall(t, "iso", "import", file, "--url", url)
	require.Contains(t, requireDone(t, got), commandtest.DigestOf(t, file))
	require.Contains(t, got.errOut, "continuing the import that was interrupted after 1.0 MiB")
	requireDone(t, landfall(t, "iso", "remove", "live.iso", "--yes", "--url", url))

	interrupt()
	other := bytes.Clone(content)
	copy(other[600<<10:], "another file of the same size")
	got = landfall(t, "iso", "import", fileOf(t, "live.iso", string(other)), "--url", url)
	require.Equal(t, outcome.Failure, got.code)
	require.Contains(t, got.errOut, "the interrupted import began with another file; import the file again")
	require.Equal(t, "[]\n", requireDone(t, landfall(t, "iso", "list", "--json", "--url", url)))
}

func TestISOBuild_inspectAndExtract(t *testing.T) {
	base, config := commandtest.LiveISO(t), fileOf(t, "config.ign", ignitionConfig)
	network := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(network, "eth0.nmconnection"), []byte("[connection]\nid=eth0\n"),
		0o600))
	before := commandtest.DigestOf(t, base)
	out := filepath.Join(t.TempDir(), "image.iso")
	arguments := []string{"iso", "build", "--base", base, "--ignition", config, "--network", network, "--karg",
		"console=ttyS0", "--karg", "quiet"}
	printed := requireDone(t, landfall(t, append(arguments, "-o", out)...))
	require.Equal(t, commandtest.DigestOf(t, out)+"  "+out+"\n", printed)
	require.Equal(t, before, commandtest.DigestOf(t, base), "the live ISO has changed")
	piped := landfall(t, append(arguments, "-o", "-")...)
	require.Empty(t, piped.errOut)
	image, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, requireDone(t, piped) == string(image), "the bytes in the pipe and in the file differ")

	var report isofile.Inspection
	require.NoError(t, json.Unmarshal([]byte(requireDone(t, landfall(t, "iso", "inspect", "--json", out))), &report))
	require.Equal(t, commandtest.DigestOf(t, out), report.SHA256)
	require.Equal(t, "Landfall", report.Embedded.Maker)
	require.Equal(t, "3.1.0", report.Embedded.Version)
	require.Equal(t, commandtest.DigestOf(t, config), report.Embedded.Ignition.SHA256)
	require.Equal(t, "etc/coreos-firstboot-network/eth0.nmconnection", report.Embedded.Files[0].Path)
	require.True(t, strings.HasSuffix(report.Kargs, "console=ttyS0 quiet"), report.Kargs)
	text := requireDone(t, landfall(t, "iso", "inspect", "--quick", out))
	require.Contains(t, text, "by Landfall")
	require.NotContains(t, text, report.SHA256)
	require.Contains(t, requireDone(t, landfall(t, "iso", "inspect", base)), "nothing; the ISO is unchanged")
	other := commandtest.LiveISOOf(t, skeleton.ISO{Replace: map[string][]byte{"coreos/igninfo.json": nil,
		"images/ignition.img": nil}})
	require.Contains(t, requireDone(t, landfall(t, "iso", "inspect", other)),
		"cannot be used: the ISO has no Ignition embed area")

	require.Equal(t, ignitionConfig, requireDone(t, landfall(t, "iso", "extract", out, "config")))
	require.Equal(t, report.Kargs+"\n", requireDone(t, landfall(t, "iso", "extract", out, "kargs")))
	require.Len(t, requireDone(t, landfall(t, "iso", "extract", out, "initrd")), 64<<10)
	dir := filepath.Join(t.TempDir(), "all")
	requireDone(t, landfall(t, "iso", "extract", out, dir))
	content, err := os.ReadFile(filepath.Join(dir, "files", "etc", "coreos-firstboot-network", "eth0.nmconnection"))
	require.NoError(t, err)
	require.Equal(t, "[connection]\nid=eth0\n", string(content))
	require.FileExists(t, filepath.Join(dir, "config.ign"))
}

func TestISOInspect_standardInput(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	base, config := commandtest.LiveISO(t), fileOf(t, "config.ign", ignitionConfig)
	image := requireDone(t, landfall(t, "iso", "build", "--base", base, "--ignition", config, "-o", "-"))
	piped := func(arguments ...string) result {
		return landfallReading(t, strings.NewReader(image), append([]string{"iso"}, arguments...)...)
	}
	require.Contains(t, requireDone(t, piped("inspect", "-")), "file        standard input")
	require.Equal(t, ignitionConfig, requireDone(t, piped("extract", "-", "config")))
	different := piped("diff", base, "-")
	require.Equal(t, outcome.Failure, different.code)
	require.Contains(t, different.out, "ignition.version")
	require.Equal(t, outcome.Usage, piped("diff", "-", "-").code)
	none := landfallReading(t, strings.NewReader("text"), "iso", "inspect", "-")
	require.Equal(t, outcome.Failure, none.code)
	require.Contains(t, none.errOut, "standard input is not a readable ISO")
	left, err := filepath.Glob(filepath.Join(temporary, "landfall-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestISOBuild_configFromStandardInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.iso")
	requireDone(t, landfallReading(t, strings.NewReader(ignitionConfig), "iso", "build",
		"--base", commandtest.LiveISO(t), "--ignition", "-", "-o", out))
	require.Equal(t, ignitionConfig, requireDone(t, landfall(t, "iso", "extract", out, "config")))
}

func TestISOBuild_configImage(t *testing.T) {
	dir := t.TempDir()
	awaiting, small := filepath.Join(dir, "awaiting.iso"), filepath.Join(dir, "small.iso")
	requireDone(t, landfall(t, "iso", "build", "--await-config-image",
		"--base", commandtest.LiveISO(t), "--karg", "quiet", "-o", awaiting))
	var report isofile.Inspection
	require.NoError(t, json.Unmarshal([]byte(requireDone(t, landfall(t, "iso", "inspect", "--json", awaiting))),
		&report))
	require.True(t, strings.HasSuffix(report.Kargs, " quiet"), report.Kargs)
	require.Contains(t, requireDone(t, landfall(t, "iso", "inspect", "--quick", awaiting)), "landfall-config-image")

	requireDone(t, landfall(t, "iso", "build", "--config-image", "--ignition", fileOf(t, "config.ign", ignitionConfig),
		"-o", small))
	info, err := os.Stat(small)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(200_000))
	require.Equal(t, ignitionConfig, requireDone(t, landfall(t, "iso", "extract", small, "config")))
}

func TestISO_errorsLeaveNoFiles(t *testing.T) {
	base, config := commandtest.LiveISO(t), fileOf(t, "config.ign", ignitionConfig)
	dir := t.TempDir()
	out := filepath.Join(dir, "image.iso")
	plain := fileOf(t, "plain.txt", "text")
	for name, c := range map[string]struct {
		arguments []string
		code      int
		message   string
	}{
		"no base": {[]string{"build", "--ignition", config, "-o", out}, outcome.Usage,
			"--base (a live ISO), --ignition (a config) and -o"},
		"invalid base": {[]string{"build", "--base", plain, "--ignition", config, "-o", out}, outcome.Failure,
			"not an ISO 9660 image"},
		"base as output": {[]string{"build", "--base", base, "--ignition", config, "-o", base}, outcome.Usage,
			"-o names the base live ISO"},
		"directory as output": {[]string{"build", "--base", base, "--ignition", config, "-o", dir}, outcome.Usage,
			"is a directory; name the file"},
		"invalid config": {[]string{"build", "--base", base, "--ignition", plain, "-o", out}, outcome.Failure,
			"plain.txt is not a valid Ignition config"},
		"no keyfiles": {[]string{"build", "--base", base, "--ignition", config, "--network", t.TempDir(),
			"-o", out}, outcome.Failure, "contains no NetworkManager keyfiles"},
		"another file": {[]string{"build", "--base", base, "--ignition", config, "--network",
			filepath.Dir(plain), "-o", out}, outcome.Failure, "is not a NetworkManager keyfile"},
		"too many kernel arguments": {[]string{"build", "--base", base, "--ignition", config, "--karg",
			strings.Repeat("x", 3000), "-o", out}, outcome.Failure, "kernel arguments"},
		"minimal without URL": {[]string{"build", "--base", base, "--ignition", config, "--minimal", "-o", out},
			outcome.Usage, "--minimal requires --rootfs-url and vice versa"},
		"config image and base": {[]string{"build", "--config-image", "--base", base, "--ignition", config,
			"-o", out}, outcome.Usage, "--config-image builds an image with only a config"},
		"config image and --await-config-image": {[]string{"build", "--await-config-image", "--base",
			base, "--ignition", config,
			"-o", out}, outcome.Usage, "--await-config-image reads its config from another drive"},
		"config image without config": {[]string{"build", "--config-image", "-o", out}, outcome.Usage,
			"--ignition (a config)"},
		"inspect a text file":    {[]string{"inspect", plain}, outcome.Failure, "is not a readable ISO"},
		"inspect a missing file": {[]string{"inspect", "/nowhere.iso"}, outcome.Failure, "no such file"},
		"extract a missing part": {[]string{"extract", base, "config"}, outcome.Failure,
			"no Ignition config is embedded"},
		"extract all of an unchanged ISO": {[]string{"extract", base, filepath.Join(dir, "all")}, outcome.Failure,
			"no Ignition config is embedded"},
	} {
		t.Run(name, func(t *testing.T) {
			got := landfall(t, append([]string{"iso"}, c.arguments...)...)
			require.Equal(t, c.code, got.code, got.errOut)
			require.Contains(t, got.errOut, c.message)
			require.Empty(t, got.out)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestISOExtract_staysInDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "files")))
	base, config := commandtest.LiveISO(t), fileOf(t, "config.ign", ignitionConfig)
	network := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(network, "eth0.nmconnection"), nil, 0o600))
	out := filepath.Join(t.TempDir(), "image.iso")
	requireDone(t, landfall(t, "iso", "build", "--base", base, "--ignition", config, "--network", network, "-o", out))
	got := landfall(t, "iso", "extract", out, dir)
	require.Equal(t, outcome.Failure, got.code)
	require.Contains(t, got.errOut, "escapes")
}

func TestISODiff_hidesSecrets(t *testing.T) {
	base, dir := commandtest.LiveISO(t), t.TempDir()
	build := func(name, config string, more ...string) string {
		path := filepath.Join(dir, name)
		requireDone(t, landfall(t, append([]string{"iso", "build", "--base", base, "--ignition",
			fileOf(t, "config.ign", config), "-o", path}, more...)...))
		return path
	}
	a := build("a.iso", ignitionConfig)
	same := landfall(t, "iso", "diff", a, a)
	require.Equal(t, result{}, same)
	b := build("b.iso", strings.NewReplacer("hello", "secret", "420", "384").Replace(ignitionConfig), "--karg",
		"console=ttyS0")
	got := landfall(t, "iso", "diff", a, b)
	require.Equal(t, outcome.Failure, got.code)
	require.Empty(t, got.errOut)
	require.Contains(t, got.out, "kernel arguments\n  + console: =ttyS0\n")
	require.Contains(t, got.out, "  ~ storage.files[/etc/motd].mode: 420 -> 384\n")
	require.Contains(t, got.out, "storage.files[/etc/motd].contents.source: 11 bytes, sha256 ")
	require.NotContains(t, got.out, "secret")

	var differences []isofile.Difference
	got = landfall(t, "iso", "diff", "--json", base, commandtest.LiveISOOf(t, skeleton.ISO{Architecture: "aarch64"}))
	require.Equal(t, outcome.Failure, got.code)
	require.NoError(t, json.Unmarshal([]byte(got.out), &differences))
	require.Contains(t, differences, isofile.Difference{In: "volume", What: "volume id",
		A: "rhcos-418.94.202511191518-0", B: "rhcos-9.6.20250523-0"})
	require.Contains(t, differences, isofile.Difference{In: "volume", What: "architecture",
		A: isogen.X86_64, B: isogen.AArch64})
}

func TestISOList_noAppliance(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, command := range [][]string{{"list"}, {"verify"}, {"remove", "a"}, {"import", commandtest.LiveISO(t)},
		{"import", "--release", "4.20.8"}} {
		got := landfall(t, append(append([]string{"iso"}, command...), "--url", gone.URL)...)
		require.Equal(t, outcome.Failure, got.code)
		require.Contains(t, got.errOut, "no appliance listens at "+gone.URL)
	}
}
