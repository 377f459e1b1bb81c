package hcp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/agent"
)

// ending cancels a context with the first output.
type ending struct {
	cancel context.CancelFunc
	text   string
}

func (e *ending) Write(text []byte) (int, error) {
	e.text += string(text)
	e.cancel()
	return len(text), nil
}

func TestSimulate_saysWhyItIsNotConnected(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mc1"}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	manifests, err := agent.Manifests(agent.Options{Consumer: "mc1", Broker: closed.Addr().String(), CA: encoded,
		Certificate: encoded, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "agent.yaml")
	require.NoError(t, os.WriteFile(file, manifests, 0o600))

	ctx, cancel := context.WithCancel(t.Context())
	said := &ending{cancel: cancel}
	cmd := NewSimulate()
	cmd.SetArgs([]string{file})
	cmd.SetErr(said)
	cmd.SetOut(t.Output())
	require.NoError(t, cmd.ExecuteContext(ctx))
	require.Contains(t, said.text, "connect to the broker: ")
	require.Contains(t, said.text, "connection refused; connecting again")
}
