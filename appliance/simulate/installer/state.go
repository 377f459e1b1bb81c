package installer

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"

	"landfall/appliance/simulate/pki"
)

// stateFile contains the state that the first step passes to the second.
const stateFile = ".openshift_install_state.json"

// installState is the state that create manifests writes for the second step. Its keys in the file
// are the real program's asset names.
type installState struct {
	InstallConfig stateInstallConfig `json:"*installconfig.InstallConfig"`
	ClusterID     stateClusterID     `json:"*installconfig.ClusterID"`
	RootCA        pki.Pair           `json:"*tls.RootCA"`

	config *installConfig
}

type stateInstallConfig struct {
	Config json.RawMessage `json:"config"`
}

type stateClusterID struct{ UUID, InfraID string }

// newInstallState parses an install-config and generates the cluster's IDs.
func newInstallState(raw []byte, version release) (*installState, error) {
	config, canonical, err := parseInstallConfig(raw, version)
	if err != nil {
		return nil, err
	}
	root, err := pki.NewCA("root-ca", "openshift", pki.TenYears)
	if err != nil {
		return nil, err
	}
	return &installState{
		InstallConfig: stateInstallConfig{Config: canonical},
		ClusterID:     stateClusterID{UUID: uuid.NewString(), InfraID: infraID(config.Metadata.Name)},
		RootCA:        *root,
		config:        config,
	}, nil
}

// infraID returns the cluster's name, cut to 21 characters, and five random characters.
func infraID(name string) string {
	const longest = 27 - 1 - 5
	if len(name) > longest {
		name = strings.TrimRight(name[:longest], "-")
	}
	return name + "-" + randomText("bcdfghjklmnpqrstvwxz2456789", 5)
}

func randomText(alphabet string, n int) string {
	b := make([]byte, n)
	rand.Read(b) // Read never returns an error
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

// loadState reads the state file. It returns nil if the file does not exist.
func (in *run) loadState() (*installState, error) {
	data, err := os.ReadFile(in.path(stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var state installState
	if err := json.Unmarshal(data, &state); err != nil {
		return nil, fmt.Errorf("failed to load state file %s: %w", in.path(stateFile), err)
	}
	if state.config, _, err = parseInstallConfig(state.InstallConfig.Config, in.release()); err != nil {
		return nil, fmt.Errorf("failed to load state file %s: %w", in.path(stateFile), err)
	}
	return &state, nil
}

func (in *run) saveState(state *installState) error {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetIndent("", "    ")
	if err := encoder.Encode(state); err != nil {
		return err
	}
	return os.WriteFile(in.path(stateFile), buf.Bytes(), 0o640)
}
