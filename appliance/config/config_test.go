package config

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/ldap"
	"landfall/appliance/access/oidc"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/operator"
)

// writeFile writes a configuration file, and the files that the configuration may name, into a
// temporary directory. It returns the path of the configuration file.
func writeFile(t *testing.T, content string) string {
	t.Helper()
	directory := t.TempDir()
	for _, name := range []string{"live.iso", "registries.conf", "idms.yaml", "ca.pem"} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte("x"), 0o600))
	}
	file := filepath.Join(directory, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func flagSet(t *testing.T, arguments ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("landfall", pflag.ContinueOnError)
	AddFlags(flags)
	require.NoError(t, flags.Parse(JoinBooleans(arguments)))
	return flags
}

func TestLoad_defaults(t *testing.T) {
	config, err := Load("", nil, nil)
	require.NoError(t, err)
	require.Equal(t, Default(), config)
	empty, err := Load(writeFile(t, "# nothing yet\n"), nil, nil)
	require.NoError(t, err)
	require.Equal(t, Default(), empty)
}

func TestLoad_allKeysOfFile(t *testing.T) {
	file := writeFile(t, `
listen: 127.0.0.1:9000
url: http://192.0.2.10:9000/
data_dir: data
os_images:
  - {openshift_version: 4.10, cpu_architecture: x86_64, path: live.iso, version: 410.8}
release_images:
  - openshift_version: 4.19.3
    cpu_architecture: multi
    url: quay.io/openshift-release-dev/ocp-release:4.19.3-multi
    default: true
    support_level: production
mirror:
  registries_conf: registries.conf
  idms_files: [idms.yaml]
  ca_bundle: ca.pem
images: {agent: "registry.example.com/agent:v1"}
ntp_sources: [ntp.example.com, "2001:db8::1"]
limits: {request_body_bytes: 8MiB, manifest_bytes: 1000}
timeouts: {host_disconnected: 90s, stages: {rebooting: 1h30m}}
log: {format: json}
`)
	config, err := Load(file, nil, nil)
	require.NoError(t, err)
	directory := filepath.Dir(file)
	want := Default()
	want.Listen = "127.0.0.1:9000"
	want.URL = []string{"http://192.0.2.10:9000"}
	want.DataDir = filepath.Join(directory, "data")
	want.OSImages = []OSImage{{OpenshiftVersion: "4.10", CPUArchitecture: "x86_64",
		Path: filepath.Join(directory, "live.iso"), Version: "410.8"}}
	want.ReleaseImages = []ReleaseImage{{
		OpenshiftVersion: "4.19.3", CPUArchitecture: "multi", Default: true, SupportLevel: "production",
		URL: "quay.io/openshift-release-dev/ocp-release:4.19.3-multi",
	}}
	want.Mirror = Mirror{
		RegistriesConf: filepath.Join(directory, "registries.conf"),
		IDMSFiles:      []string{filepath.Join(directory, "idms.yaml")},
		CABundle:       filepath.Join(directory, "ca.pem"),
	}
	want.Images.Agent = "registry.example.com/agent:v1"
	want.NTPSources = []string{"ntp.example.com", "2001:db8::1"}
	want.Limits.RequestBodyBytes, want.Limits.ManifestBytes = 8<<20, 1000
	want.Timeouts.HostDisconnected, want.Timeouts.Stages.Rebooting = 90*time.Second, 90*time.Minute
	want.Log.Format = "json"
	require.Equal(t, want, config)
}

func TestLoad_pathsAreRelativeToTheFile(t *testing.T) {
	file := writeFile(t, "data_dir: data\nbackup: {directory: backups}\nreplica: {to: replica}\n")
	config, err := Load(file, nil, nil)
	require.NoError(t, err)
	for name, path := range map[string]string{"data": config.DataDir, "backups": config.Backup.Directory,
		"replica": config.Replica.To} {
		require.Equal(t, filepath.Join(filepath.Dir(file), name), path)
	}
}

func TestLoad_emptyDirectoryMeansNoBackups(t *testing.T) {
	config, err := Load(writeFile(t, "backup: {directory: ''}\n"), nil, nil)
	require.NoError(t, err)
	require.Empty(t, config.Backup.Directory)
	config, err = Load(writeFile(t, "backup: {directory: backups}\n"), nil, flagSet(t, "--backup-directory", ""))
	require.NoError(t, err)
	require.Empty(t, config.Backup.Directory)
}

func TestLoad_precedenceOfSources(t *testing.T) {
	file := writeFile(t, "listen: 127.0.0.1:1\ndata_dir: file\nlog: {level: warn, format: json}\ntimeouts: "+
		"{installer: "+
		"1m}\n")
	environ := []string{"LANDFALL_LISTEN=127.0.0.1:2", "LANDFALL_DATA_DIR=variable", "LANDFALL_TIMEOUTS_INSTALLER=2m",
		"HOME=/root", "LANDFALL_CONFIG=x"}
	config, err := Load(file, environ, flagSet(t, "--listen", "127.0.0.1:3", "--timeouts-installer", "3m"))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:3", config.Listen)
	require.Equal(t, "variable", config.DataDir)
	require.Equal(t, 3*time.Minute, config.Timeouts.Installer)
	require.Equal(t, Log{Level: "warn", Format: "json"}, config.Log)
}

// sample returns a text value of a setting that differs from the default.
func sample(t *testing.T, s setting, directory string) string {
	if choices := strings.Fields(s.field.Tag.Get("oneof")); len(choices) > 0 {
		return choices[len(choices)-1]
	}
	switch s.field.Type {
	case durationType:
		return "77m"
	case bytesType:
		return "77MiB"
	case reflect.TypeFor[int]():
		return "77"
	case reflect.TypeFor[bool]():
		return strconv.FormatBool(!reflect.ValueOf(Default()).FieldByIndex(s.index).Bool())
	case reflect.TypeFor[[]OSImage]():
		return `[{openshift_version: "4.19", cpu_architecture: x86_64, path: ` + filepath.Join(directory, "live.iso") +
			`}]`
	case reflect.TypeFor[[]DHCPRelay]():
		return `[{network: 198.51.100.0/24, router: 198.51.100.1, range: 198.51.100.100-198.51.100.199}]`
	case reflect.TypeFor[[]GroupScope]():
		return `[{group: crew, clusters: [5f0c3d3e-2f0b-4a86-9d7d-2f8f4f3e9a01]}]`
	case reflect.TypeFor[[]ReleaseImage]():
		return `[{openshift_version: "4.19", cpu_architecture: x86_64, url: "quay.io/ocp/release:4.19"}]`
	}
	value, ok := map[string]string{
		"address": "127.0.0.1:77", "address-or-none": "127.0.0.1:78",
		"url": "http://192.0.2.7", "place": "https://second.example.com:8090", "path": filepath.Join(directory, "data"),
		"path-or-none": filepath.Join(directory, "backups"),
		"file":         filepath.Join(directory, "ca.pem"),
		"pullspec":     "registry.example.com/agent:v7", "host": "ntp.example.com", "validation": "mtu-valid",
		"egress": "192.0.2.0/24", "interface": "eth1", "resolver": "192.0.2.53",
		"dhcp": "eth1=192.0.2.100-192.0.2.199", "lease": "infinite", "ipv4": "192.0.2.1",
		"syslog": "unix:///dev/log", "issuer": "https://sso.example.com/", "": "somebody",
	}[s.field.Tag.Get("check")]
	require.True(t, ok, "the test has no sample for %s", s.key)
	return value
}

func TestSettings_eachHasVariableAndFlag(t *testing.T) {
	directory := filepath.Dir(writeFile(t, ""))
	for _, s := range settings() {
		t.Run(s.key, func(t *testing.T) {
			text := sample(t, s, directory)
			byVariable, err := Load("", []string{s.variable() + "=" + text}, nil)
			require.NoError(t, err)
			byFlag, err := Load("", nil, flagSet(t, "--"+s.flag(), text))
			require.NoError(t, err)
			require.Equal(t, byVariable, byFlag)
			require.NotEqual(t, Default(), byFlag)
			require.NotEmpty(t, helpOf(s.key), "help.go does not explain the key")
		})
	}
}

func TestLoad_listsInVariables(t *testing.T) {
	for _, text := range []string{"http://192.0.2.1,http://192.0.2.2/", "[http://192.0.2.1, http://192.0.2.2]"} {
		config, err := Load("", []string{"LANDFALL_URL=" + text}, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"http://192.0.2.1", "http://192.0.2.2"}, config.URL)
	}
}

func TestLoad_invalidFile(t *testing.T) {
	for name, wrong := range map[string]struct{ content, sentence string }{
		"an unknown key": {"listen: 127.0.0.1:1\nlisen: x\n",
			`line 2: unknown key "lisen"; did you mean "listen"?`},
		"an unknown key below another": {"log:\n  leevel: info\n",
			`line 2: unknown key "leevel" in log; did you mean "level"?`},
		"a key in the wrong place": {"ca_bundle: ca.pem\n",
			`line 1: unknown key "ca_bundle"; did you mean "mirror.ca_bundle"?`},
		"an unknown key in log": {"log: {colour: blue}\n",
			`line 1: unknown key "colour" in log; the known names are format, level`},
		"a key twice": {"listen: :1\n\nlisten: :2\n",
			`line 3: the key "listen" is given twice, first in line 1; keep one`},
		"an invalid address": {"listen: here\n",
			`line 1: listen is "here"; expected an address and a port, such as 0.0.0.0:8090`},
		"an invalid port": {"listen: 127.0.0.1:99999\n",
			`line 1: listen is "127.0.0.1:99999"; expected an address and a port`},
		"a negative number": {"backup: {keep: -1}\n",
			`line 1: backup.keep is "-1"; expected a whole number, 0 or more`},
		"too little space": {"audit: {bytes: 3}\n",
			`line 1: audit.bytes is "3"; expected a size of at least 1MiB`},
		"an invalid URL": {"url: 192.0.2.10:8090\n",
			`line 1: url[0] is "192.0.2.10:8090"; expected an http:// or https:// URL`},
		"a URL with an invalid port": {`url: ["https://192.0.2.10:99999"]`,
			`line 1: url[0] is "https://192.0.2.10:99999"; expected an http:// or https:// URL`},
		"invalid choice": {"log:\n\n  level: loud\n",
			`line 3: log.level is "loud"; expected one of debug, info, warn, error`},
		"a duration without unit": {"timeouts: {installer: 10}\n",
			`line 1: timeouts.installer is "10"; expected a duration above zero with its unit`},
		"a duration below zero": {"timeouts: {installer: -1m}\n",
			`timeouts.installer is "-1m"; expected a duration above zero`},
		"an unknown stage": {"timeouts: {stages: {reboting: 1m}}\n",
			`unknown key "reboting" in timeouts.stages; did you mean "rebooting"?`},
		"a size with a wrong unit": {"limits: {manifest_bytes: 4 MB}\n",
			`limits.manifest_bytes is "4 MB"; expected a size above zero in bytes`},
		"a size that overflows": {"limits: {manifest_bytes: 99999999999TiB}\n",
			`limits.manifest_bytes is "99999999999TiB"`},
		"object instead of a text": {"listen: {port: 1}\n",
			`line 1: listen is an object; expected an address and a port`},
		"text instead of an object": {"mirror: quay.io\n",
			`line 1: mirror is "quay.io"; expected keys and values (registries_conf, idms_files, ca_bundle, pull_secret)`},
		"text instead of a list": {"os_images: live.iso\n",
			`line 1: os_images is "live.iso"; expected a list`},
		"list instead of the configuration": {"- listen\n",
			`line 1: the configuration is a list; expected keys and values`},
		"a missing file": {"mirror:\n  ca_bundle: nowhere.pem\n",
			`nowhere.pem, which does not exist; create the file or correct the path`},
		"directory instead of a file": {"mirror: {idms_files: [idms.yaml, /]}\n",
			`mirror.idms_files[1] names /, which is a directory; name the file in it`},
		"a release without version": {"os_images:\n  - {release: true, cpu_architecture: x86_64}\n",
			`line 2: os_images[0] needs the key openshift_version`},
		"an image without a source": {"os_images:\n- {openshift_version: 4.19, cpu_architecture: x86_64}\n",
			`line 2: os_images[0] needs exactly one of path (a file), url, and release: true`},
		"an image with two sources": {"os_images:\n- {openshift_version: 4.19, cpu_architecture: x86_64, path: " +
			"live.iso, url: 'http://a/b'}\n",
			`os_images[0] needs exactly one of path (a file), url, and release: true`},
		"an unknown architecture": {"os_images:\n- {openshift_version: 4.19, cpu_architecture: amd64, path: " +
			"live.iso}\n", `os_images[0].cpu_architecture is "amd64"; expected one of x86_64, aarch64`},
		"a short digest": {"os_images:\n- {openshift_version: 4.19,\n   sha256: abc}\n",
			`line 3: os_images[0].sha256 is "abc"; expected 64 hexadecimal digits`},
		"an invalid version": {"release_images:\n- openshift_version: newest\n",
			`release_images[0].openshift_version is "newest"; expected a version such as 4.19`},
		"a release without tag": {"release_images:\n- url: quay.io/ocp/release\n",
			`release_images[0].url is "quay.io/ocp/release"; expected an image with its registry and its tag or digest`},
		"a release without pull spec": {"release_images:\n- {openshift_version: 4.19, cpu_architecture: x86_64}\n",
			`release_images[0] needs the key url`},
		"a relay agent without network": {"site: {dhcp: {relayed: [{router: 198.51.100.1}]}}\n",
			`site.dhcp.relayed[0] needs the key network`},
		"a range of another network": {"site:\n  dhcp:\n    relayed:\n    - {network: 198.51.100.0/24, range: " +
			"198.51.101.1-198.51.101.9}\n", `line 4: site.dhcp.relayed[0] has the range 198.51.101.1-198.51.101.9, ` +
			`which is not in its network 198.51.100.0/24`},
		"an invalid boolean": {"release_images:\n- default: perhaps\n",
			`release_images[0].default is "perhaps"; expected true or false`},
		"invalid YAML":  {"listen: 127.0.0.1:1\n\tdata_dir: x\n", `line 2: not YAML: `},
		"two documents": {"listen: 127.0.0.1:1\n---\nlog: {}\n", `a second document begins; keep one`},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, wrong.content)
			_, err := Load(file, nil, nil)
			require.ErrorContains(t, err, wrong.sentence)
			require.ErrorContains(t, err, file)
			require.NotContains(t, err.Error(), "\n")
			require.IsType(t, &ConfigError{}, err)
		})
	}
}

func TestLoad_invalidVariable(t *testing.T) {
	for _, wrong := range []struct{ variable, value, want string }{
		{"LANDFALL_LISTN", ":1",
			`environment: unknown variable LANDFALL_LISTN; did you mean "LANDFALL_LISTEN"?`},
		{"LANDFALL_LOG_LEVEL", "loud",
			`environment variable LANDFALL_LOG_LEVEL: log.level is "loud"; expected one of debug, info, warn, error`},
		{"LANDFALL_OS_IMAGES", "[{path",
			`environment variable LANDFALL_OS_IMAGES, line 1: not YAML`},
		{"LANDFALL_OS_IMAGES", "[{pth: a}]",
			`environment variable LANDFALL_OS_IMAGES: unknown key "pth" in os_images[0]; did you mean "path"?`},
		{"LANDFALL_MIRROR_CA_BUNDLE", "nowhere",
			`environment variable LANDFALL_MIRROR_CA_BUNDLE: mirror.ca_bundle names nowhere, which does not exist`},
	} {
		_, err := Load("", []string{wrong.variable + "=" + wrong.value}, nil)
		require.ErrorContains(t, err, wrong.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestLoad_invalidFlag(t *testing.T) {
	flags := pflag.NewFlagSet("landfall", pflag.ContinueOnError)
	AddFlags(flags)
	err := flags.Parse([]string{"--timeouts-installer", "10"})
	require.ErrorContains(t, err, `"--timeouts-installer" flag: timeouts.installer is "10"; expected a duration`)
}

func TestLoad_unreadableFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil, nil)
	require.ErrorContains(t, err, "none.yaml: the file does not exist; write it (landfall docs config prints an "+
		"example), or omit --config")
	_, err = Load(t.TempDir(), nil, nil)
	require.ErrorContains(t, err, "cannot be read (is a directory)")
}

func TestExample_explainsEachKeyWithItsDefault(t *testing.T) {
	const file = "../../config.example.yaml"
	config, err := Load(file, nil, nil)
	require.NoError(t, err)
	want := Default()
	want.DataDir = filepath.Join("..", "..", want.DataDir)
	for _, s := range settings() {
		// The example writes lists without a default as empty lists.
		if list := reflect.ValueOf(&want).Elem().FieldByIndex(s.index); list.Kind() == reflect.Slice && list.IsNil() {
			list.Set(reflect.MakeSlice(list.Type(), 0, 0))
		}
	}
	require.Equal(t, want, config)

	content, err := os.ReadFile(file)
	require.NoError(t, err)
	root, err := parse(content)
	require.NoError(t, err)
	explained := map[string]string{}
	collectComments(root, "", explained)
	for _, s := range settings() {
		comment, there := explained[s.key]
		require.True(t, there, "%s is not in config.example.yaml", s.key)
		require.NotEmpty(t, comment, "%s is not explained in the example", s.key)
		if s.field.Type.Kind() == reflect.Slice && s.field.Type.Elem().Kind() == reflect.Struct {
			for _, key := range keysOf(s.field.Type.Elem()) {
				require.Contains(t, comment, key+": ", "%s.%s is not in the example", s.key, key)
			}
		}
	}
}

func collectComments(object *yaml.Node, path string, comments map[string]string) {
	for i := 0; i < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		comments[join(path, key.Value)] = key.HeadComment
		if value.Kind == yaml.MappingNode {
			collectComments(value, join(path, key.Value), comments)
		}
	}
}

func TestConfigURLs(t *testing.T) {
	all := &net.TCPAddr{IP: net.IPv4zero, Port: 8090}
	configured, err := Config{URL: []string{"http://bastion:8090"}}.URLs(all)
	require.NoError(t, err)
	require.Equal(t, []string{"http://bastion:8090"}, configured)
	single, err := Config{}.URLs(&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 80})
	require.NoError(t, err)
	require.Equal(t, []string{"http://[2001:db8::1]:80"}, single)
	offered, err := Config{}.URLs(all)
	require.NoError(t, err)
	require.NotEmpty(t, offered)
}

func TestBytes_roundTrip(t *testing.T) {
	for size, text := range map[Bytes]string{1: "1", 1000: "1000", 1 << 10: "1KiB", 10 << 30: "10GiB",
		3 << 19: "1536KiB"} {
		require.Equal(t, text, size.String())
		read, err := parseBytes(text)
		require.NoError(t, err)
		require.Equal(t, size, read)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("listen: &a x\nurl: *a\n")
	f.Add("os_images: [{path: {a: [}]")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, content string) {
		file := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		if _, err := Load(file, nil, nil); err != nil {
			require.IsType(t, &ConfigError{}, err)
		}
	})
}

func TestValidationsRead(t *testing.T) {
	file := writeFile(t, `[{"version": "default", "sno": {"cpu_cores": 6}}]`)
	minimums, disabled, err := Validations{Requirements: file, DisabledHosts: []string{"mtu-valid"}}.Read()
	require.NoError(t, err)
	require.EqualValues(t, 6, minimums("4.20.8").SNO.CPUCores)
	require.EqualValues(t, []string{"mtu-valid"}, []string{string(disabled[0])})

	mce, _ := operator.ByName("mce")
	require.EqualValues(t, 8, minimums("4.20.8").Operators.For(mce).SingleNode.CPUCores)
	own := writeFile(t, `{"mce": {"single_node": {"cpu_cores": 6}}}`)
	minimums, _, err = Validations{Requirements: file, OperatorRequirements: own}.Read()
	require.NoError(t, err)
	require.EqualValues(t, 6, minimums("4.20.8").Operators.For(mce).SingleNode.CPUCores)
	_, _, err = Validations{OperatorRequirements: writeFile(t, `{"coffee": {}}`)}.Read()
	require.ErrorContains(t, err, `unknown operator "coffee"`)
	_, _, err = Validations{OperatorRequirements: own + ".gone"}.Read()
	require.ErrorContains(t, err, "validations.operator_requirements")

	_, _, err = Validations{DisabledHosts: []string{"connected"}}.Read()
	require.ErrorContains(t, err, "validations.disabled_hosts")
	_, _, err = Validations{Requirements: writeFile(t, "{}")}.Read()
	require.ErrorContains(t, err, "not a JSON list")
	_, _, err = Validations{Requirements: file + ".gone"}.Read()
	require.ErrorContains(t, err, "validations.requirements")
}

func TestTimeouts_defaultsOfEngine(t *testing.T) {
	require.Equal(t, lifecycle.DefaultTimeouts(), Default().Timeouts.Engine())
	warn := Default().Timeouts
	warn.ExpiredStages = "warn"
	require.True(t, warn.Engine().WarnOnly)
}

func TestLoad_withoutAuthListensOnLoopback(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		want    string
	}{
		"authentication":             {nil, "0.0.0.0:8090"},
		"no authentication":          {[]string{"LANDFALL_AUTH=none"}, "127.0.0.1:8090"},
		"no authentication, address": {[]string{"LANDFALL_AUTH=none", "LANDFALL_LISTEN=0.0.0.0:1"}, "0.0.0.0:1"},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := Load("", c.environ, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, loaded.Listen)
		})
	}
}

func TestIdentityProviders_options(t *testing.T) {
	const cluster = "5f0c3d3e-2f0b-4a86-9d7d-2f8f4f3e9a01"
	file := writeFile(t, `
oidc:
  issuer: https://sso.example.com/o/landfall/
  client_id: landfall
  client_secret_file: secret
  roles: {admin: [admins], operator: [crew, divers], viewer: staff}
  group_scopes:
    - group: crew
      clusters: [5F0C3D3E-2f0b-4a86-9d7d-2f8f4f3e9a01]
      infra_envs: [0b8f5f3c-7c43-4b4e-8a52-6f3f0f1d7c02]
ldap:
  url: [ldaps://dc1.example.com, ldaps://dc2.example.com]
  ca_bundle: ca.pem
  base_dn: dc=example,dc=com
`)
	config, err := Load(file, []string{`LANDFALL_LDAP_ROLES_VIEWER=["cn=staff,dc=example,dc=com", crew]`},
		flagSet(t, `--ldap-roles-admin=["cn=admins,dc=example,dc=com"]`))
	require.NoError(t, err)
	require.True(t, config.OIDC.Enabled())
	clock := clockwork.NewFakeClock()
	require.Equal(t, oidc.Options{
		Issuer: "https://sso.example.com/o/landfall/", ClientID: "landfall",
		ClientSecretFile: filepath.Join(filepath.Dir(file), "secret"), Scopes: []string{"profile", "email"},
		NameClaim: "preferred_username", GroupsClaim: "groups", Clock: clock,
		Rules: external.Rules{Administrators: []string{"admins"}, Operators: []string{"crew", "divers"},
			Viewers: []string{"staff"}, Scopes: []external.GroupScope{{Group: "crew",
				Scope: access.Scope{Clusters: []string{cluster},
					InfraEnvs: []string{"0b8f5f3c-7c43-4b4e-8a52-6f3f0f1d7c02"}}}}},
	}, config.OIDC.Options(clock))
	require.True(t, config.LDAP.Enabled())
	require.Equal(t, ldap.Options{
		URLs: []string{"ldaps://dc1.example.com", "ldaps://dc2.example.com"}, BaseDN: "dc=example,dc=com",
		CABundle: filepath.Join(filepath.Dir(file), "ca.pem"), UserFilter: "(uid={name})", NameAttribute: "uid",
		GroupAttribute: "memberOf", Rules: external.Rules{Administrators: []string{"cn=admins,dc=example,dc=com"},
			Viewers: []string{"cn=staff,dc=example,dc=com", "crew"}},
	}, config.LDAP.Options())
	require.False(t, Default().OIDC.Enabled())
	require.False(t, Default().LDAP.Enabled())

	for text, want := range map[string]string{
		"oidc: {issuer: sso.example.com}":                       "expected the provider's https:// URL, exactly as",
		"oidc: {roles: {administrator: [a]}}":                   `unknown key "administrator" in oidc.roles`,
		"oidc: {group_scopes: [{group: crew}]}":                 "oidc.group_scopes[0] needs the key clusters",
		"oidc: {group_scopes: [{group: crew, clusters: []}]}":   "oidc.group_scopes[0] needs the key clusters",
		"oidc: {group_scopes: [{clusters: [east]}]}":            `oidc.group_scopes[0].clusters[0] is "east"; expected an`,
		"tls: {client_group_scopes: [{infra_envs: hall-2}]}":    `tls.client_group_scopes[0].infra_envs[0] is "hall-2"`,
		"ldap: {group_scopes: [{clusters: [" + cluster + "]}]}": "ldap.group_scopes[0] needs the key group",
		"ldap: {roles: {viewer: {group: a}}}":                   "ldap.roles.viewer is an object; expected a list",
		"ldap: {url: ldaps://a, ca_bundle: none.pem}":           "ldap.ca_bundle names",
		"oidc: {issuer: 'https://sso.example.com/?realm=site'}": "oidc.issuer is",
	} {
		_, err := Load(writeFile(t, text), nil, nil)
		require.ErrorContains(t, err, want)
	}
}

func TestReplica_check(t *testing.T) {
	for want, r := range map[string]Replica{
		"":                           {To: "https://second.example.com", TokenFile: "token"},
		"replica.token_file is not":  {To: "https://second.example.com"},
		"are for a second appliance": {To: "/media/disk", TokenFile: "token"},
		"belong together":            {Receive: "/srv/landfall"},
	} {
		if err := r.Check(); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestAddFlags_booleanNeedsNoValue(t *testing.T) {
	for name, c := range map[string]struct {
		arguments       []string
		kubernetes, tls bool
	}{
		"without a value":       {[]string{"--kubernetes-enabled", "--tls-enabled"}, true, true},
		"with an equals sign":   {[]string{"--kubernetes-enabled=true", "--tls-enabled=false"}, true, false},
		"as the next argument":  {[]string{"--tls-enabled", "false", "--kubernetes-enabled", "true"}, true, false},
		"in capital letters":    {[]string{"--tls-enabled", "False", "--kubernetes-enabled", "TRUE"}, true, false},
		"as a digit":            {[]string{"--tls-enabled", "0", "--kubernetes-enabled", "1"}, true, false},
		"a digit of another":    {[]string{"--backup-keep", "1", "--tls-enabled"}, false, true},
		"the value of another":  {[]string{"--registry-name", "true", "--tls-enabled=false"}, false, false},
		"after a written value": {[]string{"--kubernetes-enabled=false", "--tls-enabled", "true"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			flags := flagSet(t, c.arguments...)
			require.Empty(t, flags.Args())
			loaded, err := Load("", nil, flags)
			require.NoError(t, err)
			require.Equal(t, c.kubernetes, loaded.Kubernetes.Enabled)
			require.Equal(t, c.tls, loaded.TLS.Enabled)
		})
	}
}

func TestForms_eachFieldNamesOne(t *testing.T) {
	var check func(structure reflect.Type)
	check = func(structure reflect.Type) {
		for _, field := range fieldsOf(structure) {
			of := field.Type
			if of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			name := field.Tag.Get("check")
			switch {
			case of.Kind() == reflect.Struct:
				check(of)
			case name != "" && of.Kind() == reflect.String:
				require.Contains(t, forms, name, field.Name)
			}
		}
	}
	check(reflect.TypeFor[Config]())
}
