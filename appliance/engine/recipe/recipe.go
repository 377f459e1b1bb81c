// Package recipe makes image recipes: all inputs of the discovery images of an infra-env except the
// base ISO. The functions are pure. The engine freezes a recipe in the transaction that changes its
// infra-env.
//
// Design: docs/design.md#images-as-lists-of-extents.
package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
	"landfall/ignition"
)

// Recipe is an image recipe. Equal recipes with equal base ISOs result in equal images.
type Recipe struct {
	InfraEnvID       string `json:"infra_env_id"`
	Name             string `json:"name"`              // name of the infra-env
	OpenshiftVersion string `json:"openshift_version"` // selects the base ISO
	CPUArchitecture  string `json:"cpu_architecture"`  // spelling of the API
	// Type is the kind of the image at the infra-env's download URL. The recipe is valid for all
	// kinds.
	Type     models.ImageType `json:"type"`
	Ignition []byte           `json:"ignition"` // the discovery ignition config of all kinds
	// Pointer is the config that sealed images contain instead of Ignition, which a machine then
	// fetches. It is empty if the images are not sealed.
	Pointer []byte `json:"pointer,omitempty"`
	// Files are added to the initial RAM disk of sealed images, minimal images and network boot,
	// which need the network before Ignition runs. Other full images do not need them.
	Files []ignition.File `json:"files,omitempty"`
	// WithoutNetwork is the reason why Files lack the static network of the machines, or "". If it
	// is set, minimal images cannot be made. Machines that boot over the network then use DHCP
	// until the whole system is loaded.
	WithoutNetwork  string                 `json:"without_network,omitempty"`
	KernelArguments models.KernelArguments `json:"kernel_arguments,omitempty"`
	// Digest is the SHA-256 of all fields above except the infra-env's id and name, in hex.
	Digest string `json:"digest"`
	// Modified is the time in UTC when the recipe was frozen. The infra-env's updated_at is not
	// earlier.
	Modified time.Time `json:"-"`
}

// Inputs holds the inputs of a recipe.
type Inputs struct {
	InfraEnv   *models.InfraEnv
	Agent      string // pull spec
	Token      string // authenticates the agent
	PullSecret string
	ServiceURL string
	ServiceCA  []byte // PEM
	// RegistriesConf and MirrorCAs are the mirror rules of the infra-env.
	RegistriesConf []byte // nil if there are no rules
	MirrorCAs      []byte // PEM
	// Sealed is true for sealed images. SealedToken is the token in them; "" is an error.
	Sealed      bool
	SealedToken string
}

// discoveryConfig returns the content of the discovery ignition config.
func (i *Inputs) discoveryConfig() (ignition.DiscoveryConfig, error) {
	env := i.InfraEnv
	config := ignition.DiscoveryConfig{
		InfraEnvID: env.ID.String(), ServiceURL: i.ServiceURL, AgentImage: i.Agent, PullSecretToken: i.Token,
		PullSecret: i.PullSecret, ServiceCA: i.ServiceCA,
		TrustBundle:    mirror.JoinBundles(string(i.MirrorCAs), env.AdditionalTrustBundle),
		RegistriesConf: i.RegistriesConf,
		SSHKeys:        lines(env.SSHAuthorizedKey), NTPSources: commaList(env.AdditionalNtpSources),
		Overrides: env.IgnitionConfigOverride, OpenshiftVersion: env.OpenshiftVersion,
	}
	if env.Proxy != nil {
		config.Proxy = ignition.Proxy{HTTP: conv.Value(env.Proxy.HTTPProxy), HTTPS: conv.Value(env.Proxy.HTTPSProxy),
			No: conv.Value(env.Proxy.NoProxy)}
	}
	var err error
	config.StaticNetwork, err = description.StaticNetwork(env)
	return config, err
}

// Fingerprint returns a digest of the inputs and of the version of the code that writes configs. It
// is much cheaper than making the recipe.
func (i *Inputs) Fingerprint() (string, error) {
	config, err := i.discoveryConfig()
	if err != nil {
		return "", err
	}
	edition, err := ignition.Edition()
	if err != nil {
		return "", err
	}
	env := i.InfraEnv
	values := []any{edition, config, env.OpenshiftVersion, env.CPUArchitecture, env.Type, env.KernelArguments,
		*env.Name}
	if i.Sealed {
		values = append(values, i.SealedToken)
	}
	return Digest(values)
}

// New makes a recipe. Errors of kind Invalid name the wrong input.
func New(inputs *Inputs) (*Recipe, error) {
	config, err := inputs.discoveryConfig()
	if err != nil {
		return nil, err
	}
	if err := description.FirstOf(description.CheckProxy(config.Proxy.HTTP), description.CheckProxy(config.Proxy.HTTPS),
		description.CheckNoProxy(config.Proxy.No)); err != nil {
		return nil, err
	}
	env := inputs.InfraEnv
	made := &Recipe{
		InfraEnvID: env.ID.String(), Name: *env.Name, OpenshiftVersion: env.OpenshiftVersion,
		CPUArchitecture: env.CPUArchitecture, Type: *env.Type,
	}
	if made.Ignition, err = ignition.Discovery(config); err != nil {
		return nil, invalid(err)
	}
	if inputs.Sealed {
		if made.Pointer, err = inputs.pointer(); err != nil {
			return nil, err
		}
		config.Proxy = ignition.Proxy{} // may contain a password, and the appliance is reached directly
	}
	made.Files, err = ignition.InitrdFiles(config)
	unreachable, ok := errors.AsType[*ignition.InitrdNetworkError](err)
	if ok && inputs.Sealed {
		return nil, invalid(fmt.Errorf("static network: %w, the only format that a sealed image supports; leave out "+
			"the field, or do not seal the images", unreachable.Fault))
	}
	if err != nil && (!ok || made.Type == models.ImageTypeMinimalIso) {
		return nil, invalid(err)
	}
	if ok {
		made.WithoutNetwork = sentence.New(unreachable)
	}
	if made.KernelArguments, err = description.KernelArguments(env); err != nil {
		return nil, err
	}
	made.Digest, err = made.ComputeDigest()
	return made, err
}

// ConfigPath returns the path at which machines fetch the discovery config of sealed images.
func ConfigPath(infraEnvID string) string { return "/sealed/" + infraEnvID + "/config.ign" }

// pointer returns the config of sealed images.
func (i *Inputs) pointer() ([]byte, error) {
	if i.SealedToken == "" || !strings.HasPrefix(i.ServiceURL, "https://") {
		return nil, fault.New(fault.Conflict,
			"The images of infra-env %s are sealed, which needs auth: local and TLS. "+
				"Set both in the configuration, or do not seal the images.", *i.InfraEnv.Name)
	}
	pointer := ignition.Pointer{URL: strings.TrimRight(i.ServiceURL, "/") + ConfigPath(i.InfraEnv.ID.String()),
		Token: i.SealedToken, CA: i.ServiceCA}
	raw, err := pointer.New()
	if err != nil {
		return nil, invalid(err)
	}
	return raw, nil
}

// Embedded returns the config that images contain.
func (r *Recipe) Embedded() []byte {
	if len(r.Pointer) > 0 {
		return r.Pointer
	}
	return r.Ignition
}

// ComputeDigest returns the digest of the recipe's fields, see [Recipe.Digest].
func (r Recipe) ComputeDigest() (string, error) {
	r.InfraEnvID, r.Name, r.Digest = "", "", ""
	return Digest(r)
}

// StaticNetworkFiles returns the files of the machines' static networks in the Assisted Installer's
// format. The paths are relative to the root. The list is empty if all machines use DHCP.
func StaticNetworkFiles(env *models.InfraEnv) ([]ignition.File, error) {
	network, err := description.StaticNetwork(env)
	if err != nil || len(network) == 0 {
		return nil, err
	}
	files, err := ignition.NetworkFiles(network, env.OpenshiftVersion)
	if err != nil {
		return nil, invalid(err)
	}
	return files, nil
}

func invalid(err error) error {
	return &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
}

// Digest returns the SHA-256, in hex, of a value's JSON.
func Digest(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("compute a digest: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// lines returns the non-blank lines of a text.
func lines(text string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}

// commaList returns the items of a comma-separated list without repetitions.
func commaList(list string) []string {
	var kept []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(kept, part) {
			kept = append(kept, part)
		}
	}
	return kept
}
