package appliance_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/assisted-service/client/installer"
	"github.com/stretchr/testify/require"

	"landfall/web/api"
	"landfall/web/operation"
)

// These tests send each operation one kind of invalid request. Errors that are specific to an
// operation are tested with that operation.

// bodies returns a valid request body for each operation with a JSON body.
func bodies() map[string]any {
	uuid, now := missingID().String(), time.Now().UTC().Format(time.RFC3339)
	logs := object{"logs_state": "collecting"}
	return map[string]any{
		"v2RegisterCluster": object{"name": "east", "openshift_version": "4.20",
			"pull_secret": pullSecret},
		"v2RegisterDisconnectedCluster": object{"name": "far", "openshift_version": "4.20"},
		"v2ImportCluster": object{"name": "edge", "api_vip_dnsname": "api.edge.site.test",
			"openshift_cluster_id": uuid},
		"V2UpdateCluster":                   object{"name": "west"},
		"v2CompleteInstallation":            object{"is_success": true},
		"v2SetIgnoredValidations":           object{"host-validation-ids": ""},
		"v2UpdateClusterInstallConfig":      `"{}"`,
		"v2UpdateClusterLogsProgress":       logs,
		"V2CreateClusterManifest":           object{"file_name": "a.yaml", "content": *encoded("a: 1")},
		"V2UpdateClusterManifest":           object{"file_name": "a.yaml", "folder": "manifests"},
		"v2ReportMonitoredOperatorStatus":   object{"name": "cvo", "status": "available"},
		"v2UpdateClusterFinalizingProgress": object{"finalizing_stage": "Done"},
		"V2UpdateClusterUISettings":         `"{}"`,
		"v2UploadClusterIngressCert":        text2jsonOf(testPEM),
		"v2TriggerEvent":                    object{"name": "x", "severity": "info", "message": "m", "event_time": now},
		"RegisterInfraEnv": object{"name": "env", "pull_secret": pullSecret,
			"openshift_version": "4.20"},
		"UpdateInfraEnv":            object{"additional_ntp_sources": "10.0.0.1"},
		"v2RegisterHost":            object{"host_id": uuid},
		"v2UpdateHost":              object{"host_name": "node"},
		"BindHost":                  object{"cluster_id": uuid},
		"v2UpdateHostIgnition":      object{"config": ""},
		"v2UpdateHostInstallerArgs": object{"args": []string{}},
		"v2PostStepReply": object{"step_id": "inventory-1", "step_type": "inventory", "output": "{}",
			"exit_code": 0},
		"v2UpdateHostLogsProgress":    logs,
		"v2UpdateHostInstallProgress": object{"current_stage": "Rebooting"},
	}
}

// byAgents lists the operations of agents and installers. They accept unknown fields, because
// agents of another version must still work.
var byAgents = []string{"v2RegisterHost", "v2PostStepReply", "v2UpdateHostInstallProgress"}

// anyText lists the operations that accept any text.
var anyText = []string{"V2UpdateClusterUISettings"}

// queries returns the required query parameters of operations.
func queries() map[string]string {
	return map[string]string{
		"V2DownloadClusterCredentials":        "?file_name=kubeconfig",
		"V2GetPresignedForClusterCredentials": "?file_name=kubeconfig",
		"V2DownloadClusterFiles":              "?file_name=bootstrap.ign",
		"V2GetPresignedForClusterFiles":       "?file_name=bootstrap.ign",
		"V2DeleteClusterManifest":             "?file_name=a.yaml", "v2DownloadClusterManifest": "?file_name=a.yaml",
		"v2DownloadInfraEnvFiles":     "?file_name=discovery.ign",
		"GetInfraEnvPresignedFileURL": "?file_name=discovery.ign",
	}
}

func text2jsonOf(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return ""
	}
	return string(quoted)
}

// at returns the URL of an operation with IDs in place of its path parameters.
func (d *testAppliance) at(operation operation.Operation, cluster, env, host string) string {
	return strings.TrimSuffix(d.url, "/v2") + strings.NewReplacer(":cluster_id", cluster, ":infra_env_id", env,
		":host_id", host,
		":validation_id", "container-images-available", ":operator_name", "lvm", ":id",
		"virtualization").Replace(operation.Path) + queries()[operation.ID]
}

func TestOperations_unknownObjectIs404(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	for _, operation := range api.Operations() {
		if !strings.Contains(operation.Path, "_id") || operation.ID == "V2UploadLogs" {
			continue
		}
		t.Run(operation.ID, func(t *testing.T) {
			unknown := missingID().String()
			requireRefusal(t, call(t, operation.Method, d.at(operation, unknown, unknown, unknown),
				bodies()[operation.ID]), http.StatusNotFound, unknown)
			if strings.Contains(operation.Path, ":host_id") {
				requireRefusal(t, call(t, operation.Method, d.at(operation, unknown, env.String(), unknown),
					bodies()[operation.ID]), http.StatusNotFound, unknown)
			}
		})
	}
}

func TestOperations_invalidIDIsRejected(t *testing.T) {
	d := startAppliance(t)
	for _, operation := range api.Operations() {
		if strings.Contains(operation.Path, "_id") {
			requireRefusal(t, call(t, operation.Method, d.at(operation, "me", "me", "me"), bodies()[operation.ID]),
				http.StatusUnprocessableEntity, `"me", which is not a UUID`)
		}
	}
}

func TestOperations_idsOfBodiesHaveHyphens(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	plain := strings.ReplaceAll(missingID().String(), "-", "")
	loose := d.host(d.infraEnv(nil))
	for _, operation := range api.Operations() {
		body, ok := map[string]object{"v2RegisterHost": {"host_id": plain}, "BindHost": {"cluster_id": plain},
			"RegisterInfraEnv": {"name": "env", "pull_secret": pullSecret, "cluster_id": plain}}[operation.ID]
		if ok {
			requireRefusal(t, call(t, operation.Method, d.at(operation, cluster.String(), env.String(), loose.String()),
				body), http.StatusUnprocessableEntity, "write it with hyphens")
		}
	}
	_, err := d.Installer.DeregisterInfraEnv(d.Context(), &installer.DeregisterInfraEnvParams{InfraEnvID: env})
	require.NoError(t, err, "no host blocks the deletion")
}

func TestOperations_invalidBodyIsRejected(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	host := d.host(env)
	for _, operation := range api.Operations() {
		good, takes := bodies()[operation.ID]
		if !takes || slices.Contains(anyText, operation.ID) {
			continue
		}
		t.Run(operation.ID, func(t *testing.T) {
			at := d.at(operation, cluster.String(), env.String(), host.String())
			requireRefusal(t, call(t, operation.Method, at, ""), http.StatusBadRequest, "has no body")
			requireRefusal(t, call(t, operation.Method, at, "{"), http.StatusBadRequest, "not JSON")
			requireRefusal(t, call(t, operation.Method, at, "[1]"), http.StatusBadRequest, "is a JSON array")
			if fields, ok := good.(object); ok {
				requireRefusal(t, call(t, operation.Method, at, text2jsonOf(strings.Repeat("[", 100))),
					http.StatusBadRequest)
				if !slices.Contains(byAgents, operation.ID) {
					requireRefusal(t, call(t, operation.Method, at, fields.with(object{"colour": "red"})),
						http.StatusBadRequest, `the unknown field "colour"`)
				}
			}
			deep := call(t, operation.Method, at, strings.Repeat("[", 100_000))
			require.Equal(t, http.StatusBadRequest, deep.status, "%.200s", deep.body)
		})
	}
	require.Equal(t, "site", d.get(cluster).Name, "nothing was stored")
}

func TestOperations_otherMethodsAreRejected(t *testing.T) {
	d := startAppliance(t)
	methods := make(map[string][]string)
	for _, operation := range api.Operations() {
		methods[operation.Path] = append(methods[operation.Path], operation.Method)
		slices.Sort(methods[operation.Path])
	}
	id := missingID().String()
	for _, operation := range api.Operations() {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete} {
			if slices.Contains(methods[operation.Path], method) {
				continue
			}
			requireRefusal(t, call(t, method, d.at(operation, id, id, id), nil), http.StatusMethodNotAllowed,
				"does not support the method "+method, "only "+methods[operation.Path][0])
		}
	}
}

// testPEM is a certificate of an unused certificate authority.
const testPEM = "-----BEGIN " +
	"CERTIFICATE-----\nMIIBBjCBuaADAgECAgEBMAUGAytlcDASMRAwDgYDVQQDEwdpbmdyZXNzMCAXDTI2\nMDEwMTAwMDAwMFoYDzIxMjYwMTAxMDAwMDAwWjASMRAwDgYDVQQDEwdpbmdyZXNz\nMCowBQYDK2VwAyEA8gcKAU5tZ3yvprQy5dQ9E71U6yGiZkrZCUqPxN8Y08SjMjAw\nMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFAobn+IwtfevZ35ItuVdWeL6z0Sn\nMAUGAytlcANBAMfWvk7HqysBGyxw3Lz1uG7XHxpLMtpKajebFASV7sCEL2nETwsI\nzxRxNulmBKXUbZsQCWrnvQOBHCcNeEJgGwA=\n-----END CERTIFICATE-----\n"
