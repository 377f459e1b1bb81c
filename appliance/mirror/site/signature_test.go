package site

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/prover"
)

func TestProver_signatureWarning(t *testing.T) {
	read := &prover.ReleaseReport{PullSpec: "quay.io/a:1", Digest: "sha256:ab"}
	for name, c := range map[string]struct {
		report *prover.ReleaseReport
		signed bool
		err    error
		says   string
	}{
		"signed":     {read, true, nil, ""},
		"not signed": {read, false, nil, "has no signature by a key in releases.signing_keys"},
		"unreadable": {read, false, errors.New("the mirror answered 500"),
			"could not be read: the mirror answered 500."},
		"release missing": {&prover.ReleaseReport{Unread: true}, false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Prover{signed: func(_ context.Context, pullSpec, digest string, _ authn.Keychain) (bool, error) {
				require.Equal(t, c.report.PullSpec+c.report.Digest, pullSpec+digest)
				return c.signed, c.err
			}}
			warning := p.signatureWarning(t.Context(), c.report, nil)
			if c.says == "" {
				require.Empty(t, warning)
			}
			require.Contains(t, warning, c.says)
		})
	}
	require.Empty(t, (&Prover{}).signatureWarning(t.Context(), read, nil), "without keys")
}
