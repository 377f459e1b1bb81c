package passkeytest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access/passkey/passkeytest"
)

// Among 2,000 keys of the virtual authenticator's own, some 16 have a coordinate that is too short.
func TestNewCredential_coordinatesAreComplete(t *testing.T) {
	for range 2000 {
		credential, err := passkeytest.NewCredential()
		require.NoError(t, err)
		require.Len(t, credential.Key.AttestationData(), 77, "a COSE key of P-256")
	}
}
