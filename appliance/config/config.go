// Package config is the configuration of an appliance: its keys with their defaults, explanations
// and checks. It is read from a file, the environment and flags.
package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"landfall/appliance/engine/lifecycle"
)

// Config is what one appliance is told. Every key can be given in a YAML file, as an environment
// variable and as a flag; see [Load]. The tags name the key, explain it (help) and say which check
// its value must pass (check, oneof).
type Config struct {
	Listen        string         `mapstructure:"listen" check:"address" help:"address and port to serve HTTP on"`
	BootListen    string         `mapstructure:"boot_listen" check:"address" help:"address and port of a second listener that serves nothing but images and boot files; left out: none"`
	URL           []string       `mapstructure:"url" check:"url" help:"URLs under which hosts and management controllers reach the appliance, the preferred one first; left out: taken from the machine's addresses"`
	DataDir       string         `mapstructure:"data_dir" check:"path" help:"directory of the database, generated files and cached installers"`
	OSImages      []OSImage      `mapstructure:"os_images" help:"live ISOs that discovery ISOs are made from, as YAML"`
	OSImageProxy  string         `mapstructure:"os_image_proxy" check:"url" help:"URL of the proxy that live ISOs are fetched through; left out: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say"`
	ReleaseImages []ReleaseImage `mapstructure:"release_images" help:"OpenShift releases that clusters can be made of, as YAML"`
	Mirror        Mirror         `mapstructure:"mirror"`
	Images        Images         `mapstructure:"images"`
	NTPSources    []string       `mapstructure:"ntp_sources" check:"host" help:"time servers that all hosts are told, names or addresses"`
	Validations   Validations    `mapstructure:"validations"`
	Limits        Limits         `mapstructure:"limits"`
	Timeouts      Timeouts       `mapstructure:"timeouts"`
	AMS           AMS            `mapstructure:"ams"`
	Capabilities  Capabilities   `mapstructure:"capabilities"`
	Kubernetes    Kubernetes     `mapstructure:"kubernetes"`
	Joining       Joining        `mapstructure:"joining"`
	Log           Log            `mapstructure:"log"`
}

// Joining is what is done for hosts in the installed clusters that they join.
type Joining struct {
	Follow bool `mapstructure:"follow" help:"look into installed clusters that hosts join, where there is a kubeconfig: approve their certificate requests, label their nodes, wait until they are ready"`
	// Addresses are for sites whose DNS does not tell the appliance what it tells the hosts.
	Addresses []string      `mapstructure:"addresses" help:"addresses of clusters' APIs whose names the appliance can't resolve, NAME=ADDRESS or NAME=ADDRESS:PORT; *.DOMAIN stands for all names below"`
	GiveUp    time.Duration `mapstructure:"give_up" help:"time after its restart that a host is waited for in a cluster that can't be reached, unless the cluster was described to the Kubernetes API"`
	Interval  time.Duration `mapstructure:"interval" help:"time between two looks into a cluster while hosts join it"`
}

// Kubernetes is the Kubernetes API.
type Kubernetes struct {
	Enabled bool   `mapstructure:"enabled" help:"serve the Kubernetes API, with the resources of Hive, the Assisted Installer, metal3 and ACM"`
	Listen  string `mapstructure:"listen" check:"address" help:"address and port of a listener of its own for the Kubernetes API; left out: it is served on the address of everything else"`
	// ImageSettles keeps a BareMetalHost from being booted several times while the manifests of its
	// site are still coming.
	ImageSettles time.Duration `mapstructure:"image_settles" help:"time in which an infra-env's image must not have changed before BareMetalHosts boot it"`
}

// OSImage is one live ISO: a file, a URL it is fetched from, or the one in the release payload of
// its version. Version and architecture are read from the image; they are needed where it does not
// tell them or is not there yet.
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

// Mirror says what the site's mirror registry holds and how it is trusted.
type Mirror struct {
	RegistriesConf string   `mapstructure:"registries_conf" check:"file" help:"registries.conf (version 2) with the site's mirrors"`
	IDMSFiles      []string `mapstructure:"idms_files" check:"file" help:"files with ImageDigestMirrorSet, ImageTagMirrorSet or ImageContentSourcePolicy objects, as oc-mirror writes them"`
	CABundle       string   `mapstructure:"ca_bundle" check:"file" help:"certificates (PEM) that the mirror registry is trusted by"`
	PullSecret     string   `mapstructure:"pull_secret" check:"file" help:"pull secret (JSON) with which the appliance itself takes live ISOs out of releases"`
}

// Validations alter the checks that hosts must pass before an installation.
type Validations struct {
	Requirements         string   `mapstructure:"requirements" check:"file" help:"JSON file with minimums of hosts by version and role, in the form of the Assisted Installer's HW_VALIDATOR_REQUIREMENTS; what it does not name stays"`
	OperatorRequirements string   `mapstructure:"operator_requirements" check:"file" help:"YAML or JSON file that maps the names of operators to what they need of hosts; what it does not name stays"`
	DisabledHosts        []string `mapstructure:"disabled_hosts" check:"validation" help:"ids of host validations that are switched off"`
}

// Images are the programs that run on hosts and in the cluster; an empty one comes from the
// cluster's release payload.
type Images struct {
	Agent      string `mapstructure:"agent" check:"pullspec" help:"image of the discovery agent; left out: from the release payload"`
	Installer  string `mapstructure:"installer" check:"pullspec" help:"image of the installer that runs on hosts; left out: from the release payload"`
	Controller string `mapstructure:"controller" check:"pullspec" help:"image of the controller that runs in the new cluster; left out: from the release payload"`
}

// Bytes is a size. In a configuration it is a whole number of bytes, or one with a unit: 512KiB,
// 4MiB, 10GiB.
type Bytes int64

// Limits bound what the appliance takes in and keeps.
type Limits struct {
	RequestBodyBytes    Bytes `mapstructure:"request_body_bytes" help:"largest body of a request"`
	LogUploadBytes      Bytes `mapstructure:"log_upload_bytes" help:"largest log archive that a host or the controller may upload"`
	ManifestBytes       Bytes `mapstructure:"manifest_bytes" help:"largest additional manifest of a cluster"`
	OSImageBytes        Bytes `mapstructure:"os_image_bytes" help:"largest live ISO that may be uploaded"`
	EventBytes          Bytes `mapstructure:"event_bytes" help:"space for events; the oldest go first"`
	EventObjectBytes    Bytes `mapstructure:"event_object_bytes" help:"how much of it the events of one cluster, infra-env or host may take"`
	JournalBytes        Bytes `mapstructure:"journal_bytes" help:"space for the journal of what happened, from which a cluster's black box is made; the oldest goes first"`
	JournalObjectBytes  Bytes `mapstructure:"journal_object_bytes" help:"how much of the journal one cluster, infra-env or host may take"`
	InstallerCacheBytes Bytes `mapstructure:"installer_cache_bytes" help:"space for extracted openshift-install programs; the ones not used for longest go first"`
}

// Timeouts bound how long the appliance waits. The limits of hosts and installations are the
// engine's.
type Timeouts struct {
	lifecycle.Timeouts `mapstructure:",squash"`
	Installer          time.Duration `mapstructure:"installer" help:"time for one run of openshift-install"`
	ImageStalled       time.Duration `mapstructure:"image_stalled" help:"time in which a client that downloads an image may take nothing before it is dropped"`
	ImageHold          time.Duration `mapstructure:"image_hold" help:"time in which a client that reads an image in ranges may be quiet and still go on with the image it began with"`
	Shutdown           time.Duration `mapstructure:"shutdown" help:"time for running requests when the appliance stops"`
	ExpiredStages      string        `mapstructure:"expired_stages" oneof:"fail warn" help:"effect of a stage that takes too long: fail ends the installation, warn only reports it"`
}

// Engine returns the limits of the engine.
func (t Timeouts) Engine() lifecycle.Timeouts {
	limits := t.Timeouts
	limits.WarnOnly = t.ExpiredStages == "warn"
	return limits
}

// AMS says how OpenShift Cluster Manager is told of the clusters.
type AMS struct {
	Enabled          bool          `mapstructure:"enabled" help:"tell OpenShift Cluster Manager of the clusters when there is a connection and credentials"`
	Connect          string        `mapstructure:"connect" oneof:"automatic by-hand" help:"automatic: whenever there is a way; by-hand: only when a person connects the site for a while"`
	URL              string        `mapstructure:"url" check:"url" help:"URL of OpenShift Cluster Manager's API"`
	TokenURL         string        `mapstructure:"token_url" check:"url" help:"URL at which credentials are exchanged for tokens"`
	OfflineTokenFile string        `mapstructure:"offline_token_file" check:"path" help:"file of mode 0600 with an offline token"`
	ClientID         string        `mapstructure:"client_id" help:"name of a service account"`
	ClientSecretFile string        `mapstructure:"client_secret_file" check:"path" help:"file of mode 0600 with the service account's secret"`
	Account          string        `mapstructure:"account" help:"user name that subscriptions are made for; left out: that of the credentials"`
	Proxy            string        `mapstructure:"proxy" check:"url" help:"URL of the proxy to OpenShift Cluster Manager; left out: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say"`
	CABundle         string        `mapstructure:"ca_bundle" check:"file" help:"certificates (PEM) that the way to OpenShift Cluster Manager is trusted by, beside those of the system"`
	FinalStatus      string        `mapstructure:"final_status" oneof:"Active Disconnected" help:"status that an installed cluster gets in OpenShift Cluster Manager"`
	CallInterval     time.Duration `mapstructure:"call_interval" help:"time between two calls, on average"`
}

// Capabilities says whether features depend on the organization's labels (see docs/ams.md).
type Capabilities struct {
	Enforce bool `mapstructure:"enforce" help:"allow what the organization's labels at this appliance name alone: clusters of several architectures, ignored validations, soft time-outs"`
}

// Log says how the appliance writes its log to standard error.
type Log struct {
	Format string `mapstructure:"format" oneof:"auto text json" help:"text for people, json for programs; auto: text on a terminal, json elsewhere"`
	Level  string `mapstructure:"level" oneof:"debug info warn error" help:"least level that is logged"`
}

// Default returns the configuration of an appliance that was told nothing. The time-outs are those
// of the Assisted Installer's own service.
func Default() Config {
	return Config{
		Listen:  "0.0.0.0:8090",
		DataDir: "landfall-data",
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
		Log: Log{Format: "auto", Level: "info"},
	}
}

// URLs returns the URLs under which the appliance is reached, without a trailing slash and the
// preferred one first: the configured ones, or else one for each address of this machine that the
// listener at address takes connections on. With none but loopback addresses it returns those.
func (c Config) URLs(listening net.Addr) ([]string, error) {
	if len(c.URL) > 0 {
		return c.URL, nil
	}
	bound, err := netip.ParseAddrPort(listening.String())
	if err != nil {
		return nil, fmt.Errorf("read the address that is listened on: %w", err)
	}
	if !bound.Addr().IsUnspecified() {
		return []string{urlOf(bound.Addr(), bound.Port())}, nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses, to offer one as the appliance's URL: %w", err)
	}
	var reachable, loopback []string
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if prefix.Addr().IsLoopback() {
			loopback = append(loopback, urlOf(prefix.Addr(), bound.Port()))
			continue
		}
		reachable = append(reachable, urlOf(prefix.Addr(), bound.Port()))
	}
	if len(reachable) > 0 {
		return reachable, nil
	}
	if len(loopback) > 0 {
		return loopback, nil
	}
	return nil, fmt.Errorf("this machine has no address that hosts could reach; bring an interface up or set url")
}

func urlOf(address netip.Addr, port uint16) string {
	return "http://" + net.JoinHostPort(address.Unmap().String(), strconv.Itoa(int(port)))
}
