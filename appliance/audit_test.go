package appliance_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
)

// planted are secrets that requests contain.
var planted = []string{"planted-pull-secret", "planted-password", "planted-manifest", "planted-key"}

func TestAudit_recordsChangesWithoutSecrets(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	clusters := address + apiPath + "/clusters"
	id := create(t, clusters+"?api_key=planted-key", s.newCluster("east").with(object{
		"pull_secret": `{"auths":{"quay.io":{"auth":"` + "cGxhbnRlZDpwbGFudGVkLXB1bGwtc2VjcmV0" + `"}}}`}))
	call(t, http.MethodPost, clusters+"/"+id+"/manifests", object{"file_name": "a.yaml", "folder": "manifests",
		"content": "cGxhbnRlZC1tYW5pZmVzdAo="})
	call(t, http.MethodPost, address+"/api/landfall/v1/bmcs", object{"name": "node-1",
		"address": "redfish-virtualmedia://root:planted-password@192.0.2.7", "username": "root",
		"password": "planted-password"})
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, clusters+"/"+id+"/install-config", nil).status)
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, clusters, nil).status)
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, clusters+"/"+id, nil).status)

	var page audittrail.Page
	call(t, http.MethodGet, address+"/api/landfall/v1/audit?cluster="+id, nil).read(t, http.StatusOK, &page)
	var operations []string
	for _, item := range page.Items {
		operations = append(operations, item.Operation)
		require.Equal(t, "127.0.0.1", item.Actor.Address)
		require.Equal(t, item.Operation == "v2GetClusterInstallConfig", item.Secret)
	}
	require.Equal(t, []string{"v2DeregisterCluster", "v2GetClusterInstallConfig", "V2CreateClusterManifest",
		"v2RegisterCluster"}, operations)
	var report audittrail.Report
	call(t, http.MethodGet, address+"/api/landfall/v1/audit/verify", nil).read(t, http.StatusOK, &report)
	require.Empty(t, report.Problems)
	stop()

	trail := filepath.Join(s.config.DataDir, audittrail.DirName)
	for _, path := range files(t, trail) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, secret := range planted {
			require.NotContains(t, string(content), secret)
		}
		require.NotContains(t, string(content), "cGxhbnRlZ")
	}
	checked, err := audittrail.VerifyDir(trail, audittrail.Expect{Trusted: report.Keys,
		Heads: []audittrail.Head{report.Last}})
	require.NoError(t, err)
	require.Empty(t, checked.Problems)
}

func TestFullDisk_auditTrailStopsChanges(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	d := smallDisk(t, filepath.Join(s.config.DataDir, audittrail.DirName), "1m")
	address, _ := s.start(t)
	clusters := address + apiPath + "/clusters"
	id := create(t, clusters, s.newCluster("first"))
	infraEnv := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("env"))
	d.fill(t, 1)
	var got answer
	for range 100 { // the last page of the file holds some more records
		if got = call(t, http.MethodPost, clusters, s.newCluster("next")); got.status != http.StatusCreated {
			break
		}
	}
	requireRefusal(t, got, http.StatusInsufficientStorage, "no space is left to write the audit trail",
		"free space on its file system, then try again")
	require.Equal(t, http.StatusInsufficientStorage,
		call(t, http.MethodGet, clusters+"/"+id+"/install-config", nil).status, "a secret")
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, clusters+"/"+id, nil).status, "reads go on")
	var env models.InfraEnv
	call(t, http.MethodGet, address+apiPath+"/infra-envs/"+infraEnv, nil).read(t, http.StatusOK, &env)
	image, _ := fetch(t, env.DownloadURL, "test", "0-4095")
	require.Equal(t, http.StatusPartialContent, image.StatusCode, "downloads go on")
	d.free(t)
	create(t, clusters, s.newCluster("last"))
	var report audittrail.Report
	call(t, http.MethodGet, address+"/api/landfall/v1/audit/verify", nil).read(t, http.StatusOK, &report)
	require.Empty(t, report.Problems)
}
