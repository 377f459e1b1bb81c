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
	CPUArchitecture  string // multi for a payload with several architectures
	URL              string // pull spec
}

// ConfiguredReleases holds the releases in the configuration, and the pull secret with which the
// appliance itself reads them.
type ConfiguredReleases struct {
	Releases       []Image
	PullSecretFile string // "" for none
}

// Keychain returns the credentials in the given pull secret or, if it is empty, in the appliance's
// own. Without both, it returns nil. For a malformed secret, the error is a [*PullSecretError].
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

// PullSecretError reports that a pull secret cannot be parsed.
type PullSecretError struct{ Err error }

func (e *PullSecretError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PullSecretError) Unwrap() error { return e.Err }
