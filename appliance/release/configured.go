package release

import (
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"

	"landfall/appliance/mirror"
)

// Image is a release image that the configuration names.
type Image struct {
	OpenshiftVersion string
	CPUArchitecture  string // multi for a payload of several architectures
	URL              string // pull spec
}

// Known holds the releases that the configuration names and the pull secret by which the appliance
// itself reads them.
type ConfiguredReleases struct {
	Releases       []Image
	PullSecretFile string // "": none
}

// Keychain returns the credentials of the given pull secret or, if that is empty, of the
// appliance's own. It returns nil if there is neither, and a [*PullSecretError] for a malformed
// secret.
func (k ConfiguredReleases) Keychain(given string) (authn.Keychain, error) {
	if given == "" && k.PullSecretFile != "" {
		data, err := os.ReadFile(k.PullSecretFile)
		if err != nil {
			return nil, fmt.Errorf("read mirror.pull_secret: %w", err)
		}
		given = string(data)
	}
	if given == "" {
		return nil, nil
	}
	secret, err := mirror.ParsePullSecret(given)
	if err != nil {
		return nil, &PullSecretError{err}
	}
	return secret, nil
}

// PullSecretError is a pull secret that can't be parsed.
type PullSecretError struct{ Err error }

func (e *PullSecretError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PullSecretError) Unwrap() error { return e.Err }
