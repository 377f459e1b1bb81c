// Package config reads and checks the configuration of an appliance: its keys, their defaults and
// their explanations. The sources are a file, the environment and flags.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"landfall/appliance/access/people"
	"landfall/appliance/audittrail"
	"landfall/appliance/backup"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/keyring"
	"landfall/appliance/replica"
)

// Config is the configuration of one appliance. Every key can be set in a YAML file, by an
// environment variable and by a flag; see [Load]. The tags name the key and the check of its value
// (check, oneof). [help] explains the keys.
type Config struct {
	Listen        string         `mapstructure:"listen" check:"address"`
	BootListen    string         `mapstructure:"boot_listen" check:"address-or-none"`
	URL           []string       `mapstructure:"url" check:"url"`
	TLS           TLS            `mapstructure:"tls"`
	DataDir       string         `mapstructure:"data_dir" check:"path"`
	Auth          string         `mapstructure:"auth" oneof:"local none"`
	AllowedHosts  []string       `mapstructure:"allowed_hosts" check:"host"`
	Sessions      Sessions       `mapstructure:"sessions"`
	OSImages      []OSImage      `mapstructure:"os_images"`
	OSImageProxy  string         `mapstructure:"os_image_proxy" check:"url"`
	ReleaseImages []ReleaseImage `mapstructure:"release_images"`
	Releases      Releases       `mapstructure:"releases"`
	Installer     Installer      `mapstructure:"installer"`
	Mirror        Mirror         `mapstructure:"mirror"`
	Registry      Registry       `mapstructure:"registry"`
	Images        Images         `mapstructure:"images"`
	Egress        Egress         `mapstructure:"egress"`
	NTPSources    []string       `mapstructure:"ntp_sources" check:"host"`
	Validations   Validations    `mapstructure:"validations"`
	Limits        Limits         `mapstructure:"limits"`
	Timeouts      Timeouts       `mapstructure:"timeouts"`
	AMS           AMS            `mapstructure:"ams"`
	Capabilities  Capabilities   `mapstructure:"capabilities"`
	Kubernetes    Kubernetes     `mapstructure:"kubernetes"`
	Joining       Joining        `mapstructure:"joining"`
	Hosted        Hosted         `mapstructure:"hosted"`
	OIDC          OIDC           `mapstructure:"oidc"`
	LDAP          LDAP           `mapstructure:"ldap"`
	Site          Site           `mapstructure:"site"`
	Audit         Audit          `mapstructure:"audit"`
	Backup        Backup         `mapstructure:"backup"`
	Replica       Replica        `mapstructure:"replica"`
	Fleet         Fleet          `mapstructure:"fleet"`
	Scrub         Scrub          `mapstructure:"scrub"`
	Seal          Seal           `mapstructure:"seal"`
	Log           Log            `mapstructure:"log"`
	Profiling     Profiling      `mapstructure:"profiling"`
	Tracing       Tracing        `mapstructure:"tracing"`
}

// Values of the key auth.
const (
	AuthLocal = "local" // clients must authenticate
	AuthNone  = "none"  // every client may do everything
)

// listenWithoutAuth is the default of the key listen if clients do not authenticate.
const listenWithoutAuth = "127.0.0.1:8090"

// Sessions limits how long people stay logged in.
type Sessions struct {
	Idle  time.Duration `mapstructure:"idle"`
	Total time.Duration `mapstructure:"total"`
}

// Seal says with what the data key is sealed.
type Seal struct {
	With           string `mapstructure:"with" oneof:"file passphrase credential tpm"`
	KeyFile        string `mapstructure:"key_file" check:"path"`
	PassphraseFile string `mapstructure:"passphrase_file" check:"path"`
	TPMDevice      string `mapstructure:"tpm_device" check:"path"`
}

// Joining configures how the appliance helps hosts to join installed clusters.
type Joining struct {
	Follow bool `mapstructure:"follow"`
	// Addresses is for sites where the appliance uses another DNS than the hosts.
	Addresses []string      `mapstructure:"addresses"`
	GiveUp    time.Duration `mapstructure:"give_up"`
	Interval  time.Duration `mapstructure:"interval"`
}

// Kubernetes configures the Kubernetes API.
type Kubernetes struct {
	Enabled bool   `mapstructure:"enabled"`
	Listen  string `mapstructure:"listen" check:"address"`
	// ImageSettles delays the boot of a BareMetalHost, so that it boots only once while the
	// manifests of its site are applied one after another.
	ImageSettles time.Duration `mapstructure:"image_settles"`
}

// Hosted configures hosted clusters: control planes that run on a management cluster.
type Hosted struct {
	Enabled      bool   `mapstructure:"enabled"`
	BrokerListen string `mapstructure:"broker_listen" check:"address"`
	DebugListen  bool   `mapstructure:"debug_listen"`
}

// OSImage is one live ISO: a file, a URL, or the ISO in the release payload of its version. The
// appliance reads version and architecture from the image. They must be set if the image does not
// contain them or is not available yet.
type OSImage struct {
	OpenshiftVersion string `mapstructure:"openshift_version" check:"version"`
	CPUArchitecture  string `mapstructure:"cpu_architecture" oneof:"x86_64 aarch64 arm64 ppc64le s390x"`
	Path             string `mapstructure:"path" check:"file"`
	URL              string `mapstructure:"url" check:"url"`
	Release          bool   `mapstructure:"release"`
	SHA256           string `mapstructure:"sha256" check:"sha256"`
	Version          string `mapstructure:"version"`
}

// ReleaseImage is one OpenShift release.
type ReleaseImage struct {
	OpenshiftVersion string `mapstructure:"openshift_version" check:"version"`
	CPUArchitecture  string `mapstructure:"cpu_architecture" oneof:"x86_64 aarch64 arm64 ppc64le s390x multi"`
	URL              string `mapstructure:"url" check:"pullspec"`
	Default          bool   `mapstructure:"default"`
	SupportLevel     string `mapstructure:"support_level" oneof:"production maintenance beta end-of-life"`
}

// Releases configures which releases may be used, in addition to those in release_images.
type Releases struct {
	SigningKeys []string `mapstructure:"signing_keys" check:"file"`
}

// Installer configures the sandbox in which the openshift-install of a release runs.
type Installer struct {
	User    string `mapstructure:"user"`
	Network bool   `mapstructure:"network"`
}

// Mirror describes the content of the site's mirror registry and how the appliance trusts it.
type Mirror struct {
	RegistriesConf string   `mapstructure:"registries_conf" check:"file"`
	IDMSFiles      []string `mapstructure:"idms_files" check:"file"`
	CABundle       string   `mapstructure:"ca_bundle" check:"file"`
	PullSecret     string   `mapstructure:"pull_secret" check:"file"`
}

// Egress decides to which addresses the appliance sends requests that a person asked for; see
// package egress.
type Egress struct {
	Allow []string `mapstructure:"allow" check:"egress"`
	Deny  []string `mapstructure:"deny" check:"egress"`
}

// Validations changes the validations that hosts must pass before an installation.
type Validations struct {
	Requirements         string   `mapstructure:"requirements" check:"file"`
	OperatorRequirements string   `mapstructure:"operator_requirements" check:"file"`
	DisabledHosts        []string `mapstructure:"disabled_hosts" check:"validation"`
}

// Images names the programs that run on hosts and in the cluster. The default of each comes from
// the cluster's release payload.
type Images struct {
	Agent      string `mapstructure:"agent" check:"pullspec"`
	Installer  string `mapstructure:"installer" check:"pullspec"`
	Controller string `mapstructure:"controller" check:"pullspec"`
}

// Bytes is a size. The configuration accepts a whole number of bytes, or a number with a unit:
// 512KiB, 4MiB, 10GiB.
type Bytes int64

// Limits limits the sizes of the data that the appliance accepts and stores.
type Limits struct {
	RequestBodyBytes    Bytes `mapstructure:"request_body_bytes"`
	LogUploadBytes      Bytes `mapstructure:"log_upload_bytes"`
	ManifestBytes       Bytes `mapstructure:"manifest_bytes"`
	OSImageBytes        Bytes `mapstructure:"os_image_bytes"`
	EventBytes          Bytes `mapstructure:"event_bytes"`
	EventObjectBytes    Bytes `mapstructure:"event_object_bytes"`
	JournalBytes        Bytes `mapstructure:"journal_bytes"`
	JournalObjectBytes  Bytes `mapstructure:"journal_object_bytes"`
	InstallerCacheBytes Bytes `mapstructure:"installer_cache_bytes"`
}

// Timeouts limits how long the appliance waits. The engine defines the limits of hosts and
// installations.
type Timeouts struct {
	lifecycle.Timeouts `mapstructure:",squash"`
	Installer          time.Duration `mapstructure:"installer"`
	ImageStalled       time.Duration `mapstructure:"image_stalled"`
	ImageHold          time.Duration `mapstructure:"image_hold"`
	Shutdown           time.Duration `mapstructure:"shutdown"`
	ExpiredStages      string        `mapstructure:"expired_stages" oneof:"fail warn"`
}

// Engine returns the limits of the engine.
func (t Timeouts) Engine() lifecycle.Timeouts {
	limits := t.Timeouts
	limits.WarnOnly = t.ExpiredStages == "warn"
	return limits
}

// AMS configures how the appliance reports clusters to OpenShift Cluster Manager.
type AMS struct {
	Enabled          bool          `mapstructure:"enabled"`
	Connect          string        `mapstructure:"connect" oneof:"automatic by-hand"`
	URL              string        `mapstructure:"url" check:"url"`
	TokenURL         string        `mapstructure:"token_url" check:"url"`
	OfflineTokenFile string        `mapstructure:"offline_token_file" check:"path"`
	ClientID         string        `mapstructure:"client_id"`
	ClientSecretFile string        `mapstructure:"client_secret_file" check:"path"`
	Account          string        `mapstructure:"account"`
	Proxy            string        `mapstructure:"proxy" check:"url"`
	CABundle         string        `mapstructure:"ca_bundle" check:"file"`
	FinalStatus      string        `mapstructure:"final_status" oneof:"Active Disconnected"`
	CallInterval     time.Duration `mapstructure:"call_interval"`
}

// Capabilities configures whether features depend on the organization's labels (see docs/ams.md).
type Capabilities struct {
	Enforce bool `mapstructure:"enforce"`
}

// Audit configures the audit trail.
type Audit struct {
	Bytes        Bytes  `mapstructure:"bytes" check:"mebibyte"`
	Syslog       string `mapstructure:"syslog" check:"syslog"`
	SyslogCAFile string `mapstructure:"syslog_ca_file" check:"file"`
}

// Receiver returns the syslog server that receives the records, with its CA certificates.
func (a Audit) Receiver() (audittrail.Syslog, error) {
	syslog, err := audittrail.ParseSyslog(a.Syslog)
	if err != nil {
		return syslog, err
	}
	roots, err := ReadFile("audit.syslog_ca_file", a.SyslogCAFile)
	syslog.Roots = string(roots)
	return syslog, err
}

// Backup configures the scheduled backups.
type Backup struct {
	Directory string        `mapstructure:"directory" check:"path-or-none"`
	Interval  time.Duration `mapstructure:"interval"`
	Keep      int           `mapstructure:"keep"`
	Recipient string        `mapstructure:"recipient"`
}

// Schedule returns the schedule of the backups.
func (b Backup) Schedule() backup.Schedule {
	return backup.Schedule{Dir: b.Directory, Interval: b.Interval, Keep: b.Keep, Recipient: b.Recipient}
}

// Replica configures the continuous copy of the data.
type Replica struct {
	To               string        `mapstructure:"to" check:"place"`
	TokenFile        string        `mapstructure:"token_file" check:"path"`
	CAFile           string        `mapstructure:"ca_file" check:"path"`
	Receive          string        `mapstructure:"receive" check:"path"`
	ReceiveTokenFile string        `mapstructure:"receive_token_file" check:"path"`
	Keep             time.Duration `mapstructure:"keep"`
	Bytes            Bytes         `mapstructure:"bytes"`
	SnapshotInterval time.Duration `mapstructure:"snapshot_interval"`
	Recipient        string        `mapstructure:"recipient"`
}

// Check returns an error for keys that contradict each other. The error is a sentence.
func (r Replica) Check() error {
	switch remote := strings.HasPrefix(r.To, "https://"); {
	case remote && r.TokenFile == "":
		return errors.New("replica.to is the URL of a second appliance, and replica.token_file is not set; set the " +
			"file with the credential for it")
	case !remote && (r.TokenFile != "" || r.CAFile != ""):
		return errors.New("replica.token_file and replica.ca_file are for a second appliance; set replica.to to its " +
			"https:// URL, or remove them")
	case (r.Receive == "") != (r.ReceiveTokenFile == ""):
		return errors.New("replica.receive and replica.receive_token_file belong together; set both, or neither")
	}
	return nil
}

// Settings returns the settings of the replica.
func (r Replica) Settings() replica.Settings {
	settings := replica.Settings{Keep: r.Keep, Bytes: int64(r.Bytes), SnapshotInterval: r.SnapshotInterval,
		Recipient: r.Recipient}
	switch {
	case strings.HasPrefix(r.To, "https://"):
		settings.Target = replica.Remote{URL: r.To, TokenFile: r.TokenFile, CAFile: r.CAFile}
	case r.To != "":
		settings.Target = replica.Directory{Path: r.To}
	}
	return settings
}

// Receiver returns what receives the replica of another appliance.
func (r Replica) Receiver() *replica.Receiver {
	return &replica.Receiver{Dir: r.Receive, TokenFile: r.ReceiveTokenFile}
}

// Scrub configures the regular reading of all stored data.
type Scrub struct {
	Interval time.Duration `mapstructure:"interval"`
}

// Log configures the log on standard error.
type Log struct {
	Format string `mapstructure:"format" oneof:"auto text json"`
	Level  string `mapstructure:"level" oneof:"debug info warn error"`
}

// Profiling configures the socket for profiles of the program.
type Profiling struct {
	Socket string `mapstructure:"socket" check:"path"`
}

// Tracing configures the collector of traces.
type Tracing struct {
	Endpoint string `mapstructure:"endpoint" check:"url"`
	CAFile   string `mapstructure:"ca_file" check:"file"`
	Percent  int    `mapstructure:"percent"`
}

// Default returns the default configuration. The time-outs are those of the Assisted Installer's
// own service.
func Default() Config {
	return Config{
		Listen:   "0.0.0.0:8090",
		DataDir:  "landfall-data",
		Auth:     AuthLocal,
		Sessions: Sessions{Idle: people.DefaultIdle, Total: people.DefaultTotal},
		OIDC:     OIDC{Scopes: []string{"profile", "email"}, NameClaim: "preferred_username", GroupsClaim: "groups"},
		LDAP:     LDAP{UserFilter: "(uid={name})", NameAttribute: "uid", GroupAttribute: "memberOf"},
		TLS: TLS{Enabled: true, ClientRoles: Roles{Admin: []string{"landfall:admin", "system:masters"},
			Operator: []string{"landfall:operator"}, Viewer: []string{"landfall:viewer"}}},
		Limits: Limits{
			RequestBodyBytes:    4 << 20,
			LogUploadBytes:      1 << 30,
			ManifestBytes:       1 << 20,
			OSImageBytes:        64 << 30,
			EventBytes:          64 << 20,
			EventObjectBytes:    2 << 20,
			JournalBytes:        64 << 20,
			JournalObjectBytes:  1 << 20,
			InstallerCacheBytes: 10 << 30,
		},
		Registry:   Registry{TLS: true, AnonymousPull: true, Bytes: 200 << 30},
		Kubernetes: Kubernetes{ImageSettles: 20 * time.Second},
		Joining:    Joining{Follow: true, GiveUp: 20 * time.Minute, Interval: 10 * time.Second},
		Timeouts: Timeouts{
			Timeouts:      lifecycle.DefaultTimeouts(),
			Installer:     10 * time.Minute,
			ImageStalled:  5 * time.Minute,
			ImageHold:     6 * time.Hour,
			Shutdown:      10 * time.Second,
			ExpiredStages: "fail",
		},
		AMS: AMS{
			Enabled:      true,
			Connect:      "automatic",
			URL:          "https://api.openshift.com",
			TokenURL:     "https://sso.redhat.com/auth/realms/redhat-external/protocol/openid-connect/token",
			FinalStatus:  "Active",
			CallInterval: 200 * time.Millisecond,
		},
		Seal:    Seal{TPMDevice: keyring.DefaultTPMDevice},
		Audit:   Audit{Bytes: audittrail.DefaultBytes},
		Site:    Site{DHCP: SiteDHCP{Lease: defaultLease}},
		Backup:  Backup{Interval: 24 * time.Hour, Keep: 30},
		Replica: Replica{Keep: 72 * time.Hour, Bytes: 20 << 30, SnapshotInterval: 24 * time.Hour},
		Fleet:   Fleet{Takeover: 5 * time.Second},
		Scrub:   Scrub{Interval: 7 * 24 * time.Hour},
		Log:     Log{Format: "auto", Level: "info"},
		Tracing: Tracing{Percent: 100},
	}
}

// URLs returns the URLs of the appliance, without a trailing slash and the preferred one first.
// These are the configured URLs; without any, one URL for each address of this machine on which the
// listener accepts connections. Loopback addresses are used only if there are no others.
func (c Config) URLs(listening net.Addr) ([]string, error) {
	if len(c.URL) > 0 {
		return c.URL, c.TLS.checkURLs(c.URL)
	}
	bound, err := netip.ParseAddrPort(listening.String())
	if err != nil {
		return nil, fmt.Errorf("read the listener's address: %w", err)
	}
	if !bound.Addr().IsUnspecified() {
		return []string{c.urlOf(bound.Addr(), bound.Port())}, nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses to find the appliance's URL: %w", err)
	}
	var reachable, loopback []string
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if prefix.Addr().IsLoopback() {
			loopback = append(loopback, c.urlOf(prefix.Addr(), bound.Port()))
			continue
		}
		reachable = append(reachable, c.urlOf(prefix.Addr(), bound.Port()))
	}
	if len(reachable) > 0 {
		return reachable, nil
	}
	if len(loopback) > 0 {
		return loopback, nil
	}
	return nil, fmt.Errorf("this machine has no address that hosts can reach; enable a network interface, or set url")
}

func (c Config) urlOf(address netip.Addr, port uint16) string {
	scheme := "http://"
	if c.TLS.Enabled {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(address.Unmap().String(), strconv.Itoa(int(port)))
}
