package release

import (
	"github.com/google/go-containerregistry/pkg/authn"

	"landfall/appliance/mirror"
)

// Image is a release that the site offers.
type Image struct {
	OpenshiftVersion string
	CPUArchitecture  string // multi for a payload with several architectures
	URL              string // pull spec
}

// Offered describes the releases that the site offers, and the pull secret with which the appliance
// itself reads them. Both may change while the appliance runs.
type Offered struct {
	Images     func() []Image
	PullSecret func() (string, error) // returns "" for none
}

// Keychain returns the credentials in the given pull secret or, if it is empty, in the site's own.
// Without both, it returns nil. For a malformed secret, the error is a [*PullSecretError].
func (o Offered) Keychain(given string) (authn.Keychain, error) {
	if given == "" {
		own, err := o.PullSecret()
		if err != nil || own == "" {
			return nil, err
		}
		given = own
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
