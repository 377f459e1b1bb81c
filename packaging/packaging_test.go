//go:build !systemd

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// native is a program that answers as landfall man and landfall completion do.
const native = `#!/bin/sh
case "$1" in
man) mkdir -p "$2" && echo '.TH LANDFALL 1' > "$2/landfall.1" && echo '.TH LANDFALL\-SERVE 1' > "$2/landfall-serve.1" ;;
completion) echo "completion of $2" ;;
esac
`

const (
	testVersion = "v1.2.0-3-gabcdef0"
	debName     = "landfall_1.2.0+3.gabcdef0-1_amd64.deb"
	rpmName     = "landfall-1.2.0+3.gabcdef0-1.x86_64.rpm"
	imageName   = "landfall-" + testVersion + "-linux-amd64.oci.tar"
)

// fixture is a repository with the files that packages contain, and with small programs.
type fixture struct{ root, output string }

func (f fixture) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(f.root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}

func (f fixture) copy(t *testing.T, from, name string, mode os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	f.write(t, name, string(text), mode)
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{root: t.TempDir()}
	f.output = filepath.Join(f.root, "dist")
	for _, name := range []string{"LICENSE", "config.example.yaml", "docs/operations.md", "docs/packages.md",
		"packaging/monitoring/alerts.yaml", "packaging/monitoring/dashboard.json"} {
		f.write(t, name, name+"\n", 0o644)
	}
	for _, dir := range []string{sources, "packaging/scripts"} {
		all, err := names(filepath.Join("..", dir))
		require.NoError(t, err)
		for _, name := range all {
			f.copy(t, filepath.Join("..", dir, name), filepath.Join(dir, name), 0o644)
		}
	}
	f.copy(t, "go.mod", "go.mod", 0o644)
	f.copy(t, "go.sum", "go.sum", 0o644)
	f.write(t, "web/ui/package-lock.json", `{"packages": {"": {"version": "0.0.0"},
		"node_modules/@a/b": {"version": "1.2.3", "license": "MIT", "integrity": "sha512-YWJj"},
		"node_modules/builder": {"version": "1.0.0", "dev": true}}}`, 0o644)
	f.write(t, "web/ui/node_modules/@a/b/LICENSE", "Copyright of A", 0o644)
	f.write(t, "native", native, 0o755)
	program := filepath.Join(t.TempDir(), "small")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "./testdata/small")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, target := range targets {
		f.copy(t, program, "programs/landfall-"+target.String(), 0o755)
	}
	return f
}

// build builds everything and returns the output.
func (f fixture) build(t *testing.T) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), []string{"-root", f.root, "-output", f.output, "-native", filepath.Join(f.root, "native"),
		"-programs", filepath.Join(f.root, "programs"), "-version", testVersion, "-epoch", "1750000000"}, &out)
	return out.String(), err
}

func (f fixture) file(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(f.output, name))
	require.NoError(t, err)
	return content
}

// Equal programs give equal files, in another directory, at another time and on a machine with
// another name.
func TestBuild_twiceTheSame(t *testing.T) {
	first, second := newFixture(t), newFixture(t)
	output, err := first.build(t)
	require.NoError(t, err)
	require.Contains(t, output, "The checksums are not signed")
	_, err = second.build(t)
	require.NoError(t, err)
	all, err := names(first.output)
	require.NoError(t, err)
	require.Len(t, all, 12, "%v", all)
	others, err := names(second.output)
	require.NoError(t, err)
	require.Equal(t, all, others)
	for _, name := range all {
		require.True(t, bytes.Equal(first.file(t, name), second.file(t, name)), "%s differs", name)
	}
	t.Run("sums", func(t *testing.T) { checkSums(t, first, all) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, first) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, first) })
	t.Run("image", func(t *testing.T) { checkImage(t, first) })
	t.Run("components", func(t *testing.T) { checkComponents(t, first) })
}

func checkSums(t *testing.T, f fixture, all []string) {
	sums := strings.Split(strings.TrimSpace(string(f.file(t, sumsName))), "\n")
	require.Len(t, sums, len(all)-1)
	for _, line := range sums {
		sum, name, found := strings.Cut(line, "  ")
		require.True(t, found)
		actual, err := sumOf(filepath.Join(f.output, name))
		require.NoError(t, err)
		require.Equal(t, actual, sum)
	}
}

func tool(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	output, err := exec.Command(name, arguments...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return string(output)
}

func checkDeb(t *testing.T, f fixture) {
	path := filepath.Join(f.output, debName)
	list := tool(t, "dpkg-deb", "--contents", path)
	for _, place := range []string{"-rwxr-xr-x root/root", "./usr/bin/landfall\n",
		"./usr/lib/systemd/system/landfall.service\n", "./usr/lib/sysusers.d/landfall.conf\n",
		"./usr/share/man/man1/landfall-serve.1.gz\n", "./usr/share/zsh/vendor-completions/_landfall\n",
		"./usr/share/doc/landfall/licenses.txt\n"} {
		require.Contains(t, list, place)
	}
	require.Equal(t, "/etc/landfall/config.yaml\n", tool(t, "dpkg-deb", "--info", path, "conffiles"))
	require.Equal(t, "1.2.0+3.gabcdef0-1\n", tool(t, "dpkg-deb", "--field", path, "Version"))
}

func checkRPM(t *testing.T, f fixture) {
	path := filepath.Join(f.output, rpmName)
	require.Equal(t, "landfall 1.2.0+3.gabcdef0 1 x86_64 localhost 1750000000", tool(t, "rpm", "--query", "--package",
		"--queryformat", "%{name} %{version} %{release} %{arch} %{buildhost} %{buildtime}", path))
	require.Equal(t, "/etc/landfall/config.yaml\n", tool(t, "rpm", "--query", "--package", "--configfiles", path))
	require.Contains(t, tool(t, "rpm", "--query", "--package", "--list", path),
		"/usr/share/zsh/site-functions/_landfall\n")
}

func checkImage(t *testing.T, f fixture) {
	dir := t.TempDir()
	reader := tar.NewReader(bytes.NewReader(f.file(t, imageName)))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		path := filepath.Join(dir, header.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o644))
	}
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	image, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, []string{"/landfall"}, config.Config.Entrypoint)
	require.Equal(t, "amd64", config.Architecture)
	// docker load reads the same file by another index.
	loaded, err := tarball.ImageFromPath(filepath.Join(f.output, imageName), nil)
	require.NoError(t, err)
	require.NoError(t, validate.Image(loaded, validate.Fast))
	layers, err := loaded.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	program, state := false, false
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		program = program || header.Name == "landfall" && header.Mode == 0o755 && header.Uid == 0
		state = state || header.Name == "var/lib/landfall/" && header.Uid == imageUser
	}
	require.True(t, program && state)
}

func checkComponents(t *testing.T, f fixture) {
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(f.file(t, "landfall-"+testVersion+".cdx.json")),
		cdx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, specVersion, bom.SpecVersion)
	licenses := map[string]string{}
	for _, c := range *bom.Components {
		if c.Licenses != nil {
			licenses[c.PackageURL] = (*c.Licenses)[0].License.ID
		}
		if c.Name == "@a/b" {
			require.Equal(t, "616263", (*c.Hashes)[0].Value)
		}
	}
	require.Equal(t, "Apache-2.0", licenses["pkg:golang/github.com/CycloneDX/cyclonedx-go@v0.12.0"])
	require.Equal(t, "MIT", licenses["pkg:npm/%40a/b@1.2.3"])
	require.Len(t, licenses, 3, "the two above and the standard library; not the package builder: %v", licenses)
	texts := string(f.file(t, licensesName))
	for _, part := range []string{"Copyright of A", "github.com/CycloneDX/cyclonedx-go v0.12.0 (Apache-2.0)",
		"Copyright 2009 The Go Authors."} {
		require.Contains(t, texts, part)
	}
}

func TestBuild_signs(t *testing.T) {
	f := newFixture(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	f.write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600)
	t.Setenv("LANDFALL_SIGNING_KEY", filepath.Join(f.root, "key.pem"))
	output, err := f.build(t)
	require.NoError(t, err)
	require.NotContains(t, output, "not signed")
	require.True(t, ed25519.Verify(public, f.file(t, sumsName), f.file(t, sumsName+".sig")))
	der, err = x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	f.write(t, "public.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), 0o644)
	require.Contains(t, tool(t, "openssl", "pkeyutl", "-verify", "-pubin", "-rawin",
		"-inkey", filepath.Join(f.root, "public.pem"), "-in", filepath.Join(f.output, sumsName),
		"-sigfile", filepath.Join(f.output, sumsName+".sig")),
		"Signature Verified Successfully")
}

func TestBuild_refuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*testing.T, fixture)
		want  string
	}{
		{"a key that is none", func(t *testing.T, f fixture) {
			f.write(t, "key.pem", "x", 0o600)
			t.Setenv("LANDFALL_SIGNING_KEY", filepath.Join(f.root, "key.pem"))
		}, "openssl genpkey -algorithm ed25519"},
		{"a missing program", func(t *testing.T, f fixture) {
			require.NoError(t, os.Remove(filepath.Join(f.root, "programs/landfall-darwin-arm64")))
		}, "landfall-darwin-arm64: no such file"},
		{"a dynamic program", func(t *testing.T, f fixture) {
			f.copy(t, "/bin/sh", "programs/landfall-linux-arm64", 0o755)
		}, "landfall-linux-arm64 needs a dynamic linker"},
		{"a package without a license", func(t *testing.T, f fixture) {
			f.write(t, "web/ui/package-lock.json", `{"packages": {"node_modules/c": {"version": "1.0.0"}}}`, 0o644)
			f.write(t, "web/ui/node_modules/c/package.json", "{}", 0o644)
		}, "the package c has no license"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			test.spoil(t, f)
			_, err := f.build(t)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestReference_compressed(t *testing.T) {
	f, stage := newFixture(t), t.TempDir()
	b := build{root: f.root, native: filepath.Join(f.root, "native")}
	require.NoError(t, b.writeReference(t.Context(), stage))
	file, err := os.Open(filepath.Join(stage, "man/landfall.1.gz"))
	require.NoError(t, err)
	defer file.Close()
	reader, err := gzip.NewReader(file)
	require.NoError(t, err)
	page, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, ".TH LANDFALL 1\n", string(page))
}

func TestPackageVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                   "1.2.3",
		"1.2.3-dirty":              "1.2.3+dirty",
		"v1.2.3-14-g0a1b2c3":       "1.2.3+14.g0a1b2c3",
		"v1.2.3-14-g0a1b2c3-dirty": "1.2.3+14.g0a1b2c3.dirty",
		"v2.0.0-rc1":               "2.0.0~rc1",
		"v2.0.0-rc1-2-g0a1b2c3":    "2.0.0~rc1+2.g0a1b2c3",
		"0a1b2c3d":                 "0.0.20250615150640+g0a1b2c3d",
		"12345678":                 "0.0.20250615150640+g12345678",
		"0a1b2c3d-dirty":           "0.0.20250615150640+g0a1b2c3d.dirty",
	} {
		require.Equal(t, want, packageVersion(described, "20250615150640"), described)
	}
}

// Package managers must see newer commits as newer versions.
func TestPackageVersion_order(t *testing.T) {
	for _, pair := range [][2]string{{"0a1b2c3d", "v1.0.0-rc1"}, {"v1.0.0-rc1", "v1.0.0"},
		{"v1.0.0", "v1.0.0-9-gffffff0"}, {"v1.0.0-9-gffffff0", "v1.0.0-10-g0000001"},
		{"v1.0.0-10-g0000001", "v1.0.1"}} {
		older, newer := packageVersion(pair[0], "20250615150640"), packageVersion(pair[1], "20250615150640")
		tool(t, "dpkg", "--compare-versions", older, "lt", newer)
	}
}
