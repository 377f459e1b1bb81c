package appliance_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	ignitionconfig "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v3"

	"landfall/ignition"
)

// requireValidFiles checks the files of an installed cluster: Ignition's validator must accept each
// ignition config, and the kubeconfig must trust the certificates of the nodes.
func requireValidFiles(t *testing.T, d *connection, cluster *models.Cluster) {
	t.Helper()
	download := func(path string) []byte {
		got := d.call(t, http.MethodGet, apiPath+path, nil)
		require.Equal(t, http.StatusOK, got.status, string(got.body))
		return got.body
	}
	at := "/clusters/" + cluster.ID.String() + "/downloads/"
	names := []string{"bootstrap.ign", "master.ign", "worker.ign"}
	if cluster.ControlPlaneCount == 2 && len(cluster.Hosts) == 3 {
		names = append(names, "arbiter.ign")
	}
	var bootstrap []byte
	for _, name := range names {
		config := download(at + "files?file_name=" + name)
		require.NoError(t, ignition.Validate(config), name)
		if bootstrap == nil {
			bootstrap = config
		}
	}
	for _, host := range cluster.Hosts {
		var answered struct{ Config string }
		d.call(t, http.MethodGet, apiPath+"/infra-envs/"+host.InfraEnvID.String()+"/hosts/"+host.ID.String()+
			"/ignition", nil).read(t, http.StatusOK, &answered)
		require.NoError(t, ignition.Validate([]byte(answered.Config)))
		require.Contains(t, answered.Config, "/etc/hostname")
	}
	signers := signersOf(t, bootstrap)
	for _, name := range []string{"kubeconfig", "kubeconfig-noingress"} {
		var config struct {
			Clusters []struct {
				Cluster struct {
					CA     string `yaml:"certificate-authority-data"`
					Server string
				}
			}
			Users []struct {
				User struct {
					Cert string `yaml:"client-certificate-data"`
				}
			}
		}
		require.NoError(t, yaml.Unmarshal(download(at+"credentials?file_name="+name), &config), name)
		server := "api." + cluster.Name + ".site.test"
		require.Equal(t, "https://"+server+":6443", config.Clusters[0].Cluster.Server)
		requireChain(t, decoded(t, config.Users[0].User.Cert), signers["admin-kubeconfig-signer.crt"],
			"", x509.ExtKeyUsageClientAuth)
		requireChain(t, signers["kube-apiserver-lb-server.crt"], decoded(t, config.Clusters[0].Cluster.CA), server,
			x509.ExtKeyUsageServerAuth)
	}
	requireChain(t, signers["machine-config-server.crt"], signers["root-ca.crt"], "", x509.ExtKeyUsageServerAuth)
}

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return data
}

// signersOf returns the certificates in a bootstrap config by file name.
func signersOf(t *testing.T, bootstrap []byte) map[string][]byte {
	t.Helper()
	config, _, err := ignitionconfig.ParseCompatibleVersion(bootstrap)
	require.NoError(t, err)
	found := map[string][]byte{}
	for _, file := range config.Storage.Files {
		if name, ok := strings.CutPrefix(file.Path, "/opt/openshift/tls/"); ok && file.Contents.Source != nil {
			content, err := dataurl.DecodeString(*file.Contents.Source)
			require.NoError(t, err)
			found[name] = content.Data
		}
	}
	return found
}

// requireChain requires that one of the authorities signed the certificate for the given use.
func requireChain(t *testing.T, certificate, authorities []byte, name string, use x509.ExtKeyUsage) {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authorities))
	block, _ := pem.Decode(certificate)
	require.NotNil(t, block)
	parsed, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	_, err = parsed.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, KeyUsages: []x509.ExtKeyUsage{use}})
	require.NoError(t, err)
}
