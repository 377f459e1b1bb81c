package abi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// Field is the name of a value. It does not depend on the places that set the value.
type Field string

// Fields of a cluster and its infra-env. [hostField] and [networkField] return the fields of hosts
// and networks, [overrideField] the fields that exist only in install-config.
const (
	Name            Field = "name"
	BaseDomain      Field = "base_domain"
	ReleaseImage    Field = "release_image"
	Architecture    Field = "architecture" // spelling of the API
	ControlPlane    Field = "control_plane"
	Workers         Field = "workers"
	Arbiters        Field = "arbiters"
	Platform        Field = "platform" // spelling of the API
	ExternalName    Field = "external_platform"
	ExternalManager Field = "external_cloud_controller_manager"
	UserNetworking  Field = "user_managed_networking"
	APIVIPs         Field = "api_vips"
	IngressVIPs     Field = "ingress_vips"
	ClusterNetworks Field = "cluster_networks"
	ServiceNetworks Field = "service_networks"
	MachineNetworks Field = "machine_networks"
	NetworkType     Field = "network_type"
	Balancer        Field = "load_balancer" // spelling of the API
	Schedulable     Field = "schedulable_masters"
	Encryption      Field = "disk_encryption"
	SSHKey          Field = "ssh_key"
	PullSecret      Field = "pull_secret"
	HTTPProxy       Field = "http_proxy"
	HTTPSProxy      Field = "https_proxy"
	NoProxy         Field = "no_proxy"
	NTPSources      Field = "ntp_sources"
	Tags            Field = "tags"

	MasterThreads  Field = "hyperthreading/masters" // Enabled or Disabled
	WorkerThreads  Field = "hyperthreading/workers"
	ArbiterThreads Field = "hyperthreading/arbiters"

	EnvSSHKey       Field = "infra_env/ssh_key"
	EnvHTTPProxy    Field = "infra_env/http_proxy"
	EnvHTTPSProxy   Field = "infra_env/https_proxy"
	EnvNoProxy      Field = "infra_env/no_proxy"
	EnvNTPSources   Field = "infra_env/ntp_sources"
	TrustBundle     Field = "infra_env/trust_bundle"
	IgnitionPatch   Field = "infra_env/ignition_override"
	KernelArguments Field = "infra_env/kernel_arguments"
	MinimalISO      Field = "infra_env/minimal_iso"

	RegistriesConf Field = "mirror/registries.conf"
	CABundle       Field = "mirror/ca-bundle.crt"
	DigestSources  Field = "mirror/install-config" // in the format of install-config
)

const (
	overridePrefix = "override/"
	networkPrefix  = "network/"
	hostPrefix     = "host/"
)

// overrideField returns the field for a path that exists only in install-config.
func overrideField(path string) Field { return Field(overridePrefix + path) }

// networkField returns the field for the nmstate description of the host with these MAC addresses.
func networkField(macs []string) Field { return Field(networkPrefix + macKey(macs)) }

// hostField returns the field for a property (hostname or role) of the host with these MAC
// addresses.
func hostField(macs []string, property string) Field {
	return Field(hostPrefix + macKey(macs) + "/" + property)
}

func macKey(macs []string) string {
	lower := make([]string, len(macs))
	for i, mac := range macs {
		lower[i] = strings.ToLower(mac)
	}
	slices.Sort(lower)
	return strings.Join(lower, ",")
}

// Values contains the values of a directory or of a cluster.
type Values map[Field]any

// text returns the form in which values are compared.
func text(value any) string {
	var plain any
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	if err == nil {
		data, err = json.Marshal(plain)
	}
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

// get returns a value, or the zero value.
func get[T any](v Values, f Field) T {
	value, _ := v[f].(T)
	return value
}

// pointer returns a value for an optional field of the API.
func pointer[T any](v Values, f Field) *T {
	if value, ok := v[f].(T); ok {
		return &value
	}
	return nil
}

// ClusterNetwork is a network for pods.
type ClusterNetwork struct {
	CIDR       string `json:"cidr" yaml:"cidr"`
	HostPrefix int64  `json:"hostPrefix" yaml:"hostPrefix"`
}

// DiskEncryption selects the nodes whose disks are encrypted, and the method.
type DiskEncryption struct {
	EnableOn    string `json:"enableOn,omitempty" yaml:"enableOn,omitempty"`
	Mode        string `json:"mode,omitempty" yaml:"mode,omitempty"`
	TangServers string `json:"tangServers,omitempty" yaml:"tangServers,omitempty"`
}

// KernelArgument is a change of the kernel arguments of the discovery image.
type KernelArgument struct {
	Operation string `json:"operation" yaml:"operation"`
	Value     string `json:"value" yaml:"value"`
}

// Readers convert a field of a document to a value. Their errors complete a sentence that starts
// with the path of the field.

func asText(value any) (any, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case int, float64, bool:
		return fmt.Sprint(value), nil
	}
	return nil, errors.New("takes a string")
}

func asTrimmed(value any) (any, error) {
	s, err := asText(value)
	if err != nil {
		return nil, err
	}
	return strings.TrimSpace(s.(string)), nil
}

func asFlag(value any) (any, error) {
	if flag, ok := value.(bool); ok {
		return flag, nil
	}
	return nil, errors.New("takes true or false")
}

func asNumber(value any) (any, error) {
	switch value := value.(type) {
	case int:
		if value >= 0 && value <= math.MaxInt32 {
			return int64(value), nil
		}
	case nil:
		return int64(0), nil
	}
	return nil, errors.New("takes a whole number from 0")
}

func asTexts(value any) (any, error) {
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("takes a list of strings")
	}
	texts := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := item.(string)
		if !ok {
			return nil, errors.New("takes a list of strings")
		}
		texts = append(texts, s)
	}
	return texts, nil
}

// asJoined reads a list that the API represents as comma-separated text.
func asJoined(value any) (any, error) {
	texts, err := asTexts(value)
	if err != nil {
		return nil, err
	}
	return strings.Join(texts.([]string), ","), nil
}

func split(value any) any {
	joined, _ := value.(string)
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}

func asAddresses(value any) (any, error) {
	texts, err := asTexts(value)
	if err != nil {
		return nil, errors.New("takes a list of IP addresses")
	}
	for _, s := range texts.([]string) {
		if _, err := netip.ParseAddr(s); err != nil {
			return nil, fmt.Errorf("has %q, which is not an IP address", s)
		}
	}
	return texts, nil
}

// asAddress reads a single address, the older form of a list of addresses.
func asAddress(value any) (any, error) { return asAddresses([]any{value}) }

func first(value any) any {
	if list, _ := value.([]string); len(list) > 0 {
		return list[0]
	}
	return nil
}

// asCIDR reads a network and clears its host bits, as Hive does.
func asCIDR(value any) (string, error) {
	s, _ := value.(string)
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return "", fmt.Errorf("has %q, which is not a network such as 192.168.0.0/24", fmt.Sprint(value))
	}
	return prefix.Masked().String(), nil
}

func asCIDRs(value any) (any, error) {
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("takes a list of networks such as 192.168.0.0/24")
	}
	var cidrs []string
	for _, item := range items {
		cidr, err := asCIDR(item)
		if err != nil {
			return nil, err
		}
		cidrs = append(cidrs, cidr)
	}
	return cidrs, nil
}

// fields decodes an object that may contain only the given fields.
func fields(value any, names ...string) (map[string]any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("takes objects with the fields " + strings.Join(names, ", "))
	}
	for name := range object {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("has the unknown field %q; the fields are %s", name, strings.Join(names, ", "))
		}
	}
	return object, nil
}

func asMachineNetworks(value any) (any, error) {
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("takes a list of objects with cidr")
	}
	var cidrs []any
	for _, item := range items {
		object, err := fields(item, "cidr")
		if err != nil {
			return nil, err
		}
		cidrs = append(cidrs, object["cidr"])
	}
	return asCIDRs(cidrs)
}

func machineNetworks(value any) any {
	cidrs, _ := value.([]string)
	list := []map[string]string{}
	for _, cidr := range cidrs {
		list = append(list, map[string]string{"cidr": cidr})
	}
	return list
}

func asClusterNetworks(value any) (any, error) {
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("takes a list of objects with cidr and hostPrefix")
	}
	var networks []ClusterNetwork
	for _, item := range items {
		object, err := fields(item, "cidr", "hostPrefix")
		if err != nil {
			return nil, err
		}
		cidr, err := asCIDR(object["cidr"])
		if err != nil {
			return nil, err
		}
		length, err := asNumber(object["hostPrefix"])
		if err != nil {
			return nil, fmt.Errorf("has an invalid hostPrefix: it %w", err)
		}
		if length.(int64) == 0 { // the installer's default
			if length = int64(23); strings.Contains(cidr, ":") {
				length = int64(64)
			}
		}
		networks = append(networks, ClusterNetwork{cidr, length.(int64)})
	}
	return networks, nil
}

func asEncryption(value any) (any, error) {
	object, err := fields(value, "enableOn", "mode", "tangServers")
	if err != nil {
		return nil, err
	}
	var e DiskEncryption
	for name, to := range map[string]*string{"enableOn": &e.EnableOn, "mode": &e.Mode, "tangServers": &e.TangServers} {
		*to, _ = object[name].(string)
	}
	return e, nil
}

func asKernelArguments(value any) (any, error) {
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("takes a list of objects with operation and value")
	}
	var arguments []KernelArgument
	for _, item := range items {
		object, err := fields(item, "operation", "value")
		if err != nil {
			return nil, err
		}
		operation, _ := object["operation"].(string)
		argument, _ := object["value"].(string)
		arguments = append(arguments, KernelArgument{operation, argument})
	}
	return arguments, nil
}

// asOneOf reads a value with a table from the document's spelling to the API's spelling.
func asOneOf(words map[string]string) func(any) (any, error) {
	return func(value any) (any, error) {
		word, _ := value.(string)
		if converted, ok := words[word]; ok {
			return converted, nil
		}
		var all []string
		for word := range words {
			all = append(all, word)
		}
		slices.Sort(all)
		return nil, fmt.Errorf("takes one of %s", strings.Join(all, ", "))
	}
}

func oneOf(words map[string]string) func(any) any {
	return func(value any) any {
		for word, converted := range words {
			if converted == value {
				return word
			}
		}
		return value
	}
}

func platformWords() map[string]string {
	return map[string]string{"BareMetal": "baremetal", "None": "none", "VSphere": "vsphere", "Nutanix": "nutanix",
		"External": "external"}
}

func architectureWords() map[string]string {
	return map[string]string{"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64",
		"ppc64le": "ppc64le", "s390x": "s390x"}
}

func threads() map[string]string {
	return map[string]string{"Enabled": "Enabled", "Disabled": "Disabled"}
}

func asBase64(value any) (any, error) {
	s, _ := value.(string)
	decoded, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("takes a base64 string")
	}
	return strings.TrimSpace(string(decoded)), nil
}

func base64Of(value any) any {
	s, _ := value.(string)
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// OfDirectory reports whether only directories contain a field, not clusters: references between
// documents, the planned number of workers, names of hosts that have not booted, and mirror files.
func OfDirectory(f Field) bool {
	return slices.Contains([]Field{Workers, Arbiters, RegistriesConf, CABundle, DigestSources}, f) ||
		strings.HasPrefix(string(f), "ref/") || strings.HasPrefix(string(f), hostPrefix)
}
