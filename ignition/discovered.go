package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	unitfile "github.com/coreos/ignition/v2/config/shared/parse"
	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
)

// Discovered is what a machine does with a discovery config, read the way Ignition, systemd and
// podman read it.
type Discovered struct {
	// ServiceURL, InfraEnvID and AgentImage are the agent's --url, --infra-env-id and
	// --agent-version.
	ServiceURL, InfraEnvID, AgentImage string
	// Insecure is true if the agent is told not to verify the service.
	Insecure bool
	// PullSecretToken is PULL_SECRET_TOKEN in the agent's environment.
	PullSecretToken string
	// Environment is all of the agent's, as NAME -> value.
	Environment map[string]string
	// ServiceCA (PEM) is the file that --cacert names; nil if there is none.
	ServiceCA []byte
	// TrustBundle, RegistriesConf, PullSecret and PolicyJSON are the files of those names; nil if
	// there is none.
	TrustBundle, RegistriesConf, PullSecret, PolicyJSON []byte
	// SSHKeys may log in as core.
	SSHKeys []string

	files map[string][]byte
}

// File returns a file that the config writes whole.
func (d *Discovered) File(path string) ([]byte, bool) {
	data, ok := d.files[path]
	return data, ok
}

// ReadDiscovery reads a discovery config of any supported version, Landfall's own or another
// service's. It fails if the config is not valid, has no enabled agent.service, or the agent in it
// couldn't start.
func ReadDiscovery(raw []byte) (*Discovered, error) {
	config, err := parseLifted(raw)
	if err != nil {
		return nil, err
	}
	d := &Discovered{files: map[string][]byte{}}
	for i, f := range config.Storage.Files {
		if err := d.addFile(f); err != nil {
			return nil, &ConfigError{Config: "config", Where: fmt.Sprintf("$.storage.files.%d (%s)", i, f.Path),
				Problem: err.Error()}
		}
	}
	for _, u := range config.Passwd.Users {
		if u.Name == "core" {
			for _, k := range u.SSHAuthorizedKeys {
				d.SSHKeys = append(d.SSHKeys, string(k))
			}
		}
	}
	i := slices.IndexFunc(config.Systemd.Units, func(u types.Unit) bool { return u.Name == agentUnit })
	if i < 0 || !util.IsTrue(config.Systemd.Units[i].Enabled) || util.IsTrue(config.Systemd.Units[i].Mask) {
		return nil, &ConfigError{Config: "config", Where: "$.systemd.units", Problem: "no enabled " + agentUnit +
			": this is no discovery config"}
	}
	if err := d.readAgent(config.Systemd.Units[i]); err != nil {
		return nil, &ConfigError{Config: "config", Where: fmt.Sprintf("$.systemd.units.%d (%s)", i, agentUnit),
			Problem: err.Error()}
	}
	d.TrustBundle, d.RegistriesConf = d.files[TrustBundlePath], d.files[RegistriesConfPath]
	d.PullSecret, d.PolicyJSON = d.files[PullSecretPath], d.files[PolicyPath]
	return d, nil
}

// parseLifted reads any supported version up to 3.5 as 3.5; what is newer has the same shape as far
// as is read here.
func parseLifted(raw []byte) (*types.Config, error) {
	value, spec, err := read("config", raw, 5)
	if err != nil {
		return nil, err
	}
	if config, ok := value.(types.Config); ok {
		return &config, nil
	}
	again, err := spec.encode(value)
	if err != nil {
		return nil, err
	}
	config := &types.Config{}
	return config, json.Unmarshal(again, config)
}

// maxFile bounds what one file may unpack to: a discovery config is read whole into memory.
const maxFile = 64 << 20

func (d *Discovered) addFile(f types.File) error {
	if f.Contents.Source == nil {
		return nil
	}
	data, err := resource(f.Contents)
	if err != nil {
		return err
	}
	d.files[f.Path] = data
	return nil
}

// resource returns the bytes behind a data URL; other sources would be fetched by the machine and
// count as empty.
func resource(r types.Resource) ([]byte, error) {
	source := deref(r.Source)
	if !strings.HasPrefix(source, "data:") {
		return nil, nil
	}
	u, err := dataurl.DecodeString(source)
	if err != nil {
		return nil, fmt.Errorf("the data URL can't be read: %w", err)
	}
	if deref(r.Compression) != "gzip" {
		return u.Data, nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(u.Data))
	if err != nil {
		return nil, fmt.Errorf("the contents are no gzip: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(zr, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("unpack the contents: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("the contents unpack to more than %d MiB", maxFile>>20)
	}
	return data, nil
}

// readAgent reads the unit with its drop-ins, in which an empty assignment forgets the earlier
// ones.
func (d *Discovered) readAgent(u types.Unit) error {
	texts := []*string{u.Contents}
	dropins := slices.Clone(u.Dropins)
	slices.SortFunc(dropins, func(a, b types.Dropin) int { return strings.Compare(a.Name, b.Name) })
	for _, drop := range dropins {
		texts = append(texts, drop.Contents)
	}
	var command string
	env := map[string]string{}
	for _, text := range texts {
		options, err := parseUnit(text)
		if err != nil {
			return err
		}
		for _, o := range options {
			if o.Section != "Service" {
				continue
			}
			switch o.Name {
			case "ExecStart":
				command = o.Value
			case "Environment":
				if strings.TrimSpace(o.Value) == "" {
					clear(env)
				}
				words, err := unquote(o.Value, false)
				if err != nil {
					return err
				}
				for _, w := range words {
					if name, value, ok := strings.Cut(w, "="); ok {
						env[name] = value
					}
				}
			}
		}
	}
	d.Environment, d.PullSecretToken = env, env["PULL_SECRET_TOKEN"]
	return d.readCommand(command)
}

func (d *Discovered) readCommand(command string) error {
	words, err := unquote(command, true)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return errors.New("has no ExecStart")
	}
	flags := map[string]string{}
	for i := 1; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "--")
		if !ok {
			return fmt.Errorf("ExecStart: %q is no flag", words[i])
		}
		name, value, inline := strings.Cut(name, "=")
		if !inline {
			if i++; i >= len(words) {
				return fmt.Errorf("ExecStart: the flag --%s has no value", name)
			}
			value = words[i]
		}
		flags[name] = value
	}
	d.ServiceURL, d.InfraEnvID, d.AgentImage = flags["url"], flags["infra-env-id"], flags["agent-version"]
	for _, required := range []string{"url", "infra-env-id", "agent-version"} {
		if flags[required] == "" {
			return fmt.Errorf("ExecStart: --%s is missing", required)
		}
	}
	if v, ok := flags["insecure"]; ok {
		if d.Insecure, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("ExecStart: --insecure=%s is neither true nor false", v)
		}
	}
	if path := flags["cacert"]; path != "" {
		ca, ok := d.files[path]
		if !ok {
			return fmt.Errorf("ExecStart: --cacert names %s, which the config does not write", path)
		}
		d.ServiceCA = ca
	}
	return nil
}

type unitOption struct{ Section, Name, Value string }

func parseUnit(text *string) ([]unitOption, error) {
	options, err := unitfile.ParseUnitContents(text)
	if err != nil {
		return nil, err
	}
	out := make([]unitOption, len(options))
	for i, o := range options {
		out[i] = unitOption{o.Section, o.Name, o.Value}
	}
	return out, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
