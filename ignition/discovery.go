package ignition

import (
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/v3_1/types"
	"github.com/coreos/ignition/v2/config/validate"
	"github.com/vincent-petithory/dataurl"
)

// Paths of files on a machine that booted a discovery image. The agent, the installer and their
// containers depend on some of these paths.
const (
	// ServiceCAPath is the CA of the service's certificate, passed to the agent as --cacert.
	ServiceCAPath = "/etc/assisted-service/service-ca-cert.crt"
	// TrustBundlePath is a trust anchor of the system. coreos-update-ca-trust.service reads it at
	// boot.
	TrustBundlePath = "/etc/pki/ca-trust/source/anchors/site-trust-bundle.pem"
	// PullSecretPath contains the registry credentials of podman.
	PullSecretPath = "/root/.docker/config.json"
	// podman and other programs that use containers/image read RegistriesConfPath and PolicyPath.
	RegistriesConfPath = "/etc/containers/registries.conf"
	PolicyPath         = "/etc/containers/policy.json"

	agentUnit     = "agent.service"
	pullAgentPath = "/usr/local/bin/pull-agent"
	chronyPath    = "/etc/chrony.conf"
)

// The files that are copied to the live system unchanged.
var (
	//go:embed live/motd
	motd string
	//go:embed live/pull-agent
	pullAgentScript string
	//go:embed live/chronyd-agent.cil
	selinuxPolicy string
	//go:embed live/selinux.service
	selinuxUnit string
	//go:embed live/multipath.conf
	multipathConf string
	//go:embed live/01-ipv6.conf
	ipv6Conf string
)

// Proxy contains the proxy settings of a machine; "" means no proxy.
type Proxy struct {
	HTTP, HTTPS string
	// No lists hosts, domains and CIDRs that need no proxy, separated by commas.
	No string
}

func (p Proxy) set() bool { return p.HTTP != "" || p.HTTPS != "" }

// direct returns the entries of No without surrounding blanks.
func (p Proxy) direct() []string {
	var items []string
	for item := range strings.SplitSeq(p.No, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// bypass returns the proxy with the host of a valid URL added to No.
func (p Proxy) bypass(service string) Proxy {
	u, err := url.Parse(service)
	direct := p.direct()
	if err != nil || !p.set() || slices.Contains(direct, "*") || slices.Contains(direct, u.Hostname()) {
		return p
	}
	p.No = strings.Join(append(direct, u.Hostname()), ",")
	return p
}

// environment returns the variables in upper and lower case, because some programs read only one of
// them.
func (p Proxy) environment() []string {
	var env []string
	direct := strings.Join(p.direct(), ",")
	for _, v := range []struct{ name, value string }{{"HTTP_PROXY", p.HTTP}, {"HTTPS_PROXY", p.HTTPS},
		{"NO_PROXY", direct}} {
		if v.value != "" && p.set() {
			env = append(env, v.name+"="+v.value, strings.ToLower(v.name)+"="+v.value)
		}
	}
	return env
}

// DiscoveryConfig is the input of the Ignition config of a discovery image.
type DiscoveryConfig struct {
	// InfraEnvID is the infra-env that the machine registers with.
	InfraEnvID string
	// ServiceURL is the URL at which the machine reaches the service, without a path:
	// "https://landfall.site:8090".
	ServiceURL string
	// AgentImage is the pull spec of the agent's container image, preferably by digest.
	AgentImage string
	// PullSecretToken authenticates the agent to the API; "" if the API requires no token.
	PullSecretToken string
	// PullSecret is the JSON with the credentials of registries.
	PullSecret string

	// ServiceCA (PEM) is the CA of ServiceURL's certificate. It is empty if the system already
	// trusts the certificate.
	ServiceCA []byte
	// TrustBundle (PEM) is added to the trusted CAs of the system: the CA of the mirror and other
	// CAs of the site.
	TrustBundle []byte
	// RegistriesConf (TOML, version 2) redirects pulls to the mirror. If it is empty, the file of
	// the image is kept.
	RegistriesConf []byte
	// PolicyJSON replaces the signature policy of the image. If it is empty, the policy of the
	// image is kept.
	PolicyJSON []byte

	// Proxy is used for hosts outside the site. The machine connects to the host of ServiceURL
	// directly, even if Proxy.No does not contain it.
	Proxy Proxy
	// SSHKeys are public keys for the user core, one or more lines each.
	SSHKeys []string
	// NTPSources are names or addresses of time servers. If the list is not empty, the machine uses
	// only these servers and the servers from DHCP.
	NTPSources []string
	// StaticNetwork contains the network of machines without DHCP.
	StaticNetwork []HostNetwork
	// OpenshiftVersion ("4.20", "4.20.3") is the version of the live system; "" means a current
	// version.
	OpenshiftVersion string
	// Overrides is an Ignition config that is merged into the result, or "".
	Overrides string
}

// Discovery returns the Ignition config of a discovery image. Its spec version is 3.1.0, or the
// version of the overrides if that is higher. Equal inputs result in equal bytes, and therefore in
// equal images.
//
// An error is a sentence about the invalid field. Invalid overrides return a *ConfigError with the
// position.
func Discovery(c DiscoveryConfig) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("discovery config: %w", err)
	}
	c.Proxy = c.Proxy.bypass(c.ServiceURL)
	config := types.Config{Ignition: types.Ignition{Version: "3.1.0"}}
	config.Ignition.Proxy = ignitionProxy(c.Proxy)
	config.Passwd.Users = coreUser(c.SSHKeys)
	config.Storage.Files = c.files()
	config.Systemd.Units = []types.Unit{
		enabledUnit(agentUnit, c.agentService()),
		enabledUnit("selinux.service", selinuxUnit),
		{Name: "multipathd.service", Enabled: util.BoolToPtr(true)},
	}
	if len(c.StaticNetwork) > 0 {
		if err := staticNetwork(&config, c.StaticNetwork, c.OpenshiftVersion); err != nil {
			return nil, fmt.Errorf("static network: %w", err)
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the discovery config: %w", err)
	}
	if strings.TrimSpace(c.Overrides) != "" {
		return Merge(raw, []byte(c.Overrides))
	}
	return raw, validateOwn(config)
}

// validateOwn validates a config that this package has built. Unlike Validate, it does not parse
// the text again to find positions and unused keys, which would take most of the time.
func validateOwn(config types.Config) error {
	for _, e := range validate.ValidateWithContext(config, nil).Entries {
		if e.Kind.IsFatal() {
			return &ConfigError{Config: "config", Where: e.Context.String(), Problem: e.Message}
		}
	}
	return nil
}

func (c DiscoveryConfig) check() error {
	u, err := url.Parse(c.ServiceURL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("the service URL %q must look like https://host:port", c.ServiceURL)
	case c.InfraEnvID == "":
		return errors.New("the infra-env id is missing")
	case c.AgentImage == "" || strings.ContainsAny(c.AgentImage, " \t\r\n"):
		return fmt.Errorf("the agent image %q must be a pull spec such as registry/repository@sha256:…", c.AgentImage)
	case strings.ContainsAny(c.InfraEnvID+c.PullSecretToken+c.ServiceURL, "\r\n\x00"):
		return errors.New("the infra-env id, the token and the service URL must be single lines")
	}
	if c.PullSecret != "" && !json.Valid([]byte(c.PullSecret)) {
		return errors.New(`the pull secret is not JSON; it must be an object like {"auths":{…}}`)
	}
	if len(c.PolicyJSON) > 0 && !json.Valid(c.PolicyJSON) {
		return errors.New("the signature policy (policy.json) is not JSON")
	}
	for name, bundle := range map[string][]byte{"service CA": c.ServiceCA, "trust bundle": c.TrustBundle} {
		if block, _ := pem.Decode(bundle); len(bundle) > 0 && block == nil {
			return fmt.Errorf("the %s contains no PEM certificate", name)
		}
	}
	for _, s := range c.NTPSources {
		if s == "" || strings.ContainsAny(s, " \t\r\n,#") {
			return fmt.Errorf("the NTP source %q must be a single host name or address", s)
		}
	}
	for _, v := range c.Proxy.environment() {
		if strings.ContainsAny(v, "\r\n\x00") {
			return errors.New("the proxy settings must be single lines")
		}
	}
	return nil
}

// agentService returns the unit that starts the agent. The start time-out is long, because the
// start includes the pull of the image. A stalled pull still ends.
func (c DiscoveryConfig) agentService() string {
	var b strings.Builder
	b.WriteString("[Unit]\nDescription=Agent of the Assisted Installer\nWants=network-online.target\n")
	b.WriteString("After=network-online.target\nStartLimitIntervalSec=0\n\n")
	b.WriteString("[Service]\nType=simple\nRestart=always\nRestartSec=3\nTimeoutStartSec=1800\n")
	for _, v := range c.Proxy.environment() {
		fmt.Fprintf(&b, "Environment=%s\n", unitAssignment(v))
	}
	if c.PullSecretToken != "" {
		fmt.Fprintf(&b, "Environment=%s\n", unitAssignment("PULL_SECRET_TOKEN="+c.PullSecretToken))
	}
	fmt.Fprintf(&b, "ExecStartPre=%s\n", unitCommand(pullAgentPath, c.AgentImage))
	fmt.Fprintf(&b, "ExecStartPre=%s\n", unitCommand("/usr/bin/podman", "run", "--rm", "--privileged", "--pull=never",
		"-v", "/usr/local/bin:/hostbin", c.AgentImage, "cp", "/usr/bin/agent", "/hostbin"))
	args := []string{"/usr/local/bin/agent", "--url", strings.TrimRight(c.ServiceURL, "/"), "--infra-env-id",
		c.InfraEnvID,
		"--agent-version", c.AgentImage, "--insecure=false"}
	if len(c.ServiceCA) > 0 {
		args = append(args, "--cacert", ServiceCAPath)
	}
	fmt.Fprintf(&b, "ExecStart=%s\n\n[Install]\nWantedBy=multi-user.target\n", unitCommand(args...))
	return b.String()
}

func (c DiscoveryConfig) files() []types.File {
	files := []types.File{
		newFile("/etc/motd", 0o644, []byte(motd)),
		newFile(pullAgentPath, 0o755, []byte(pullAgentScript)),
		newFile("/etc/selinux/chronyd-agent.cil", 0o644, []byte(selinuxPolicy)),
		newFile("/etc/multipath.conf", 0o644, []byte(multipathConf)),
		newFile("/etc/NetworkManager/conf.d/01-ipv6.conf", 0o644, []byte(ipv6Conf)),
	}
	optional := func(path string, mode int, data []byte) {
		if len(data) > 0 {
			files = append(files, newFile(path, mode, data))
		}
	}
	optional(PullSecretPath, 0o600, []byte(c.PullSecret))
	optional(ServiceCAPath, 0o644, c.ServiceCA)
	optional(TrustBundlePath, 0o644, c.TrustBundle)
	optional(RegistriesConfPath, 0o644, c.RegistriesConf)
	optional(PolicyPath, 0o644, c.PolicyJSON)
	optional("/etc/profile.d/proxy.sh", 0o644, []byte(proxyProfile(c.Proxy)))
	optional(chronyPath, 0o644, []byte(chronyConf(c.NTPSources)))
	return files
}

// chronyConf returns a configuration without the public time servers of the image, which a
// disconnected site cannot reach. The clock may be stepped at any time, because a wrong clock makes
// certificates invalid.
func chronyConf(sources []string) string {
	if len(sources) == 0 {
		return ""
	}
	var b strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&b, "server %s iburst\n", s)
	}
	b.WriteString("sourcedir /run/chrony-dhcp\ndriftfile /var/lib/chrony/drift\nmakestep 1.0 -1\nrtcsync\nlogdir " +
		"/var/log/chrony\n")
	return b.String()
}

func proxyProfile(p Proxy) string {
	var b strings.Builder
	for _, v := range p.environment() {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, shellQuote(value))
	}
	return b.String()
}

func ignitionProxy(p Proxy) types.Proxy {
	if !p.set() {
		return types.Proxy{}
	}
	proxy := types.Proxy{HTTPProxy: optionalString(p.HTTP), HTTPSProxy: optionalString(p.HTTPS)}
	for _, item := range p.direct() {
		proxy.NoProxy = append(proxy.NoProxy, types.NoProxyItem(item))
	}
	return proxy
}

// coreUser returns the user core with the keys. The user has no password and may use sudo.
func coreUser(keys []string) []types.PasswdUser {
	user := types.PasswdUser{Name: "core", PasswordHash: util.StrToPtr("!"), Groups: []types.Group{"sudo"}}
	seen := map[string]bool{}
	for _, k := range keys {
		for line := range strings.Lines(k) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !seen[line] {
				seen[line] = true
				user.SSHAuthorizedKeys = append(user.SSHAuthorizedKeys, types.SSHAuthorizedKey(line))
			}
		}
	}
	if len(user.SSHAuthorizedKeys) == 0 {
		return nil
	}
	return []types.PasswdUser{user}
}

func enabledUnit(name, contents string) types.Unit {
	return types.Unit{Name: name, Enabled: util.BoolToPtr(true), Contents: util.StrToPtr(contents)}
}

// newFile returns a file owned by root that replaces an existing file.
func newFile(path string, mode int, data []byte) types.File {
	return types.File{
		Node: types.Node{Path: path, Overwrite: util.BoolToPtr(true),
			User: types.NodeUser{Name: util.StrToPtr("root")}},
		FileEmbedded1: types.FileEmbedded1{
			Mode:     util.IntToPtr(mode),
			Contents: types.Resource{Source: util.StrToPtr(dataurl.EncodeBytes(data))},
		},
	}
}

func optionalString(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
