package roots_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/roots"
)

// A bundle is trusted on top of the authorities of the system.
func TestWith(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	verify := func(pool *x509.CertPool) error {
		_, err := server.Certificate().Verify(x509.VerifyOptions{Roots: pool, DNSName: "example.com"})
		return err
	}
	require.Error(t, verify(roots.System()))
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	pool, ok := roots.With(bundle)
	require.True(t, ok)
	require.NoError(t, verify(pool))
	pool, ok = roots.With([]byte("no certificate"))
	require.False(t, ok)
	require.True(t, pool.Equal(roots.System()))
	require.Error(t, verify(roots.System()), "the authorities of the system stay as they are")
}
