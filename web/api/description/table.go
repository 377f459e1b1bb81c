package description

import "github.com/openshift/assisted-service/models"

// described is what the document says of one operation.
type described struct {
	say        string
	parameters []parameter // beside those of the path
	takes      any         // a value of the body's type, nil for none
	status     int         // of success
	also       int         // of success without a body, where there are two
	answers    any         // a value of the answer's type, nil for none
	errors     []int
}

type parameter struct {
	name     string
	kind     kind
	in       string // "" is query
	required bool
	values   []string
}

// kind is what a parameter takes.
type kind int

const (
	text kind = iota
	texts
	identity
	identities
	flag
	number
)

// Bodies that are no models of the API.
type (
	file          struct{} // any bytes
	upload        struct{} // a form with the file upfile
	featureLevels struct {
		Features models.SupportLevels `json:"features"`
	}
	architectureLevels struct {
		Architectures models.SupportLevels `json:"architectures"`
	}
	detailedLevels struct {
		Features  []models.Feature  `json:"features"`
		Operators []models.Operator `json:"operators"`
	}
)

// table describes the operations by id: their parameters, bodies and statuses are those of the
// API's own description (swagger.yaml of the assisted-service).
func table() map[string]described {
	return map[string]described{
		"v2ListClusters": {say: "List the clusters",
			parameters: []parameter{
				{name: "get_unregistered_clusters", kind: flag, in: "header"},
				{name: "openshift_cluster_id", kind: identity},
				{name: "ams_subscription_ids", kind: texts},
				{name: "with_hosts", kind: flag},
				{name: "owner"},
			},
			status: 200, answers: models.ClusterList{}, errors: []int{401, 403, 405, 500, 503},
		},
		"v2RegisterCluster": {say: "Create a cluster",
			takes:  ClusterCreateParams{},
			status: 201, answers: models.Cluster{}, errors: []int{400, 401, 403, 405, 500},
		},
		"V2GetClusterDefaultConfig": {say: "Show what a new cluster has when nothing is said",
			status: 200, answers: models.ClusterDefaultConfig{}, errors: []int{401, 403, 500},
		},
		"v2RegisterDisconnectedCluster": {say: "Make a cluster known that is installed without this service",
			takes:  models.DisconnectedClusterCreateParams{},
			status: 201, answers: models.Cluster{}, errors: []int{400, 401, 403, 500},
		},
		"v2ImportCluster": {say: "Make an existing cluster known so that hosts can join it",
			takes:  models.ImportClusterParams{},
			status: 201, answers: models.Cluster{}, errors: []int{400, 401, 403, 500},
		},
		"v2GetCluster": {say: "Show a cluster with its hosts",
			parameters: []parameter{
				{name: "discovery_agent_version", in: "header"},
				{name: "get_unregistered_clusters", kind: flag, in: "header"},
				{name: "exclude-hosts", kind: flag},
			},
			status: 200, answers: models.Cluster{}, errors: []int{401, 403, 404, 405, 500, 503},
		},
		"V2UpdateCluster": {say: "Change a cluster; fields that are absent or null stay",
			takes:  V2ClusterUpdateParams{},
			status: 201, answers: models.Cluster{}, errors: []int{400, 401, 403, 404, 405, 409, 500},
		},
		"v2DeregisterCluster": {say: "Delete a cluster", status: 204, errors: []int{401, 403, 404, 405,
			409, 500}},
		"TransformClusterToAddingHosts": {say: "Open an installed cluster for more hosts", status: 202,
			answers: models.Cluster{}, errors: []int{401, 403, 404, 405, 409, 500}},
		"TransformClusterToDay2": {say: "Open an installed cluster for more hosts (older name)",
			status: 202, answers: models.Cluster{}, errors: []int{401, 403, 404, 405, 409, 500},
		},
		"V2CancelInstallation": {say: "Cancel an installation", status: 202, answers: models.Cluster{},
			errors: []int{401, 403, 404, 405, 409, 500}},
		"v2CompleteInstallation": {say: "Report the end of an installation (for the controller in the cluster)",
			parameters: []parameter{
				{name: "discovery_agent_version", in: "header"},
			},
			takes:  models.CompletionParams{},
			status: 202, answers: models.Cluster{}, errors: []int{401, 403, 404, 405, 409, 500, 503},
		},
		"v2InstallCluster": {say: "Install a cluster", status: 202, answers: models.Cluster{},
			errors: []int{400, 401, 403, 404, 405, 409, 500}},
		"v2ResetCluster": {say: "Take a cluster back to its description", status: 202, answers: models.Cluster{},
			errors: []int{401, 403, 404, 405, 409, 500}},
		"V2GetCredentials": {say: "Show the console's address and the first administrator's password",
			status: 200, answers: models.Credentials{}, errors: []int{401, 403, 404, 405, 409, 500},
		},
		"V2DownloadClusterCredentials": {say: "Download a kubeconfig or the administrator's password",
			parameters: []parameter{
				{name: "file_name", required: true, values: []string{"kubeadmin-password", "kubeconfig",
					"kubeconfig-noingress"}},
			},
			status: 200, answers: file{}, errors: []int{401, 403, 404, 405, 409, 500, 503},
		},
		"V2GetPresignedForClusterCredentials": {say: "Get a signed link to a kubeconfig or the administrator's " +
			"password",
			parameters: []parameter{
				{name: "file_name", required: true, values: []string{"kubeadmin-password", "kubeconfig",
					"kubeconfig-noingress"}},
			},
			status: 200, answers: models.PresignedURL{}, errors: []int{400, 401, 403, 404, 405, 409, 500},
		},
		"V2DownloadClusterFiles": {say: "Download a file that the installation generated",
			parameters: []parameter{
				{name: "file_name", required: true, values: []string{"bootstrap.ign", "master.ign", "metadata.json",
					"worker.ign", "install-config.yaml", "custom_manifests.json", "custom_manifests.yaml",
					"arbiter.ign"}},
				{name: "discovery_agent_version", in: "header"},
			},
			status: 200, answers: file{}, errors: []int{401, 403, 404, 405, 409, 500, 503},
		},
		"V2GetPresignedForClusterFiles": {say: "Get a signed link to a file, to logs or to a manifest",
			parameters: []parameter{
				{name: "file_name", required: true, values: []string{"bootstrap.ign", "master.ign", "metadata.json",
					"worker.ign", "install-config.yaml", "logs", "manifests"}},
				{name: "logs_type", values: []string{"host", "controller", "all"}},
				{name: "host_id", kind: identity},
				{name: "additional_name"},
			},
			status: 200, answers: models.PresignedURL{}, errors: []int{400, 401, 403, 404, 405, 409, 500},
		},
		"ListClusterHosts": {say: "List the hosts of a cluster",
			parameters: []parameter{
				{name: "role", values: []string{"master", "arbiter", "worker", "auto-assign"}},
				{name: "status"},
				{name: "with-inventory", kind: flag},
				{name: "with-connectivity", kind: flag},
			},
			status: 200, answers: models.HostList{}, errors: []int{401, 403, 404, 500},
		},
		"v2GetIgnoredValidations": {say: "Show which validations are ignored", status: 200,
			answers: models.IgnoredValidations{}, errors: []int{400, 404}},
		"v2SetIgnoredValidations": {say: "Choose which validations are ignored",
			takes:  models.IgnoredValidations{},
			status: 201, answers: models.IgnoredValidations{}, errors: []int{400, 404, 401, 403, 500},
		},
		"v2GetClusterInstallConfig": {say: "Show the install-config that an installation would get now",
			status: 200, answers: "", errors: []int{401, 403, 404, 405, 500},
		},
		"v2UpdateClusterInstallConfig": {say: "Override fields of the install-config",
			takes:  "",
			status: 201, errors: []int{400, 401, 403, 404, 405, 500},
		},
		"V2DownloadClusterLogs": {say: "Download logs of a host, of the controller, or of all",
			parameters: []parameter{
				{name: "logs_type", values: []string{"host", "controller", "all"}},
				{name: "host_id", kind: identity},
			},
			status: 200, answers: file{}, errors: []int{401, 403, 404, 405, 409, 500},
		},
		"V2UploadLogs": {say: "Send logs (for hosts and the controller)",
			parameters: []parameter{
				{name: "logs_type", required: true, values: []string{"host", "controller"}},
				{name: "infra_env_id", kind: identity},
				{name: "host_id", kind: identity},
			},
			takes:  upload{},
			status: 204, errors: []int{400, 401, 403, 404, 405, 409, 500, 503},
		},
		"v2UpdateClusterLogsProgress": {say: "Report how far the controller's logs are (for the controller)",
			takes:  models.LogsProgressParams{},
			status: 204, errors: []int{401, 403, 404, 405, 409, 500, 503},
		},
		"V2ListClusterManifests": {say: "List the additional manifests of a cluster",
			parameters: []parameter{
				{name: "include_system_generated", kind: flag},
			},
			status: 200, answers: models.ListManifests{}, errors: []int{401, 403, 404, 405, 409, 500},
		},
		"V2CreateClusterManifest": {say: "Add a manifest",
			takes:  models.CreateManifestParams{},
			status: 201, answers: models.Manifest{}, errors: []int{400, 401, 403, 404, 405, 409, 500},
		},
		"V2UpdateClusterManifest": {say: "Change, rename or move a manifest",
			takes:  models.UpdateManifestParams{},
			status: 200, answers: models.Manifest{}, errors: []int{400, 401, 403, 404, 405, 409, 500},
		},
		"V2DeleteClusterManifest": {say: "Delete a manifest",
			parameters: []parameter{
				{name: "folder", values: []string{"manifests", "openshift"}},
				{name: "file_name", required: true},
			},
			status: 200, errors: []int{401, 403, 404, 405, 409, 500},
		},
		"v2DownloadClusterManifest": {say: "Download a manifest",
			parameters: []parameter{
				{name: "folder", values: []string{"manifests", "openshift"}},
				{name: "file_name", required: true},
			},
			status: 200, answers: file{}, errors: []int{401, 403, 404, 405, 409, 500},
		},
		"V2ListOfClusterOperators": {say: "List the operators that are watched in a cluster",
			parameters: []parameter{
				{name: "operator_name"},
			},
			status: 200, answers: models.MonitoredOperatorsList{}, errors: []int{401, 403, 404, 405, 500},
		},
		"v2ReportMonitoredOperatorStatus": {say: "Report the state of an operator (for the controller)",
			takes:  models.OperatorMonitorReport{},
			status: 200, errors: []int{400, 401, 403, 404, 405, 409, 500, 503},
		},
		"v2GetPreflightRequirements": {say: "Show what the hosts of a cluster need", status: 200,
			answers: models.PreflightHardwareRequirements{}, errors: []int{401, 403, 404, 405, 500}},
		"v2UpdateClusterFinalizingProgress": {say: "Report the stage of the end of an installation (for the " +
			"controller)",
			takes:  models.ClusterFinalizingProgress{},
			status: 200, errors: []int{401, 403, 404, 405, 500, 503},
		},
		"GetClusterSupportedPlatforms": {say: "List the platforms that a cluster's hosts can be installed for",
			status: 200, answers: []models.PlatformType{}, errors: []int{401, 403, 404, 500},
		},
		"V2GetClusterUISettings": {say: "Show what the browser keeps with a cluster", status: 200, answers: "",
			errors: []int{400, 404, 401, 403, 500}},
		"V2UpdateClusterUISettings": {say: "Replace what the browser keeps with a cluster",
			takes:  "",
			status: 200, answers: "", errors: []int{400, 404, 401, 403, 500},
		},
		"v2UploadClusterIngressCert": {say: "Send the ingress certificate (for the controller)",
			parameters: []parameter{
				{name: "discovery_agent_version", in: "header"},
			},
			takes:  "",
			status: 201, errors: []int{400, 401, 403, 404, 405, 500, 503},
		},
		"v2ListComponentVersions": {say: "Show the versions of the service's parts", status: 200,
			answers: models.ListVersions{}, errors: []int{}},
		"V2ListManagedDomains": {say: "List the DNS domains that the service writes to",
			status: 200, answers: models.ListManagedDomains{}, errors: []int{500},
		},
		"v2ListEvents": {say: "List events, in pages; headers count what the filter selects",
			parameters: []parameter{
				{name: "cluster_id", kind: identity},
				{name: "host_id", kind: identity},
				{name: "host_ids", kind: identities},
				{name: "infra_env_id", kind: identity},
				{name: "limit", kind: number},
				{name: "offset", kind: number},
				{name: "order", values: []string{"ascending", "descending"}},
				{name: "severities", kind: texts, values: []string{"info", "warning", "error", "critical"}},
				{name: "message"},
				{name: "deleted_hosts", kind: flag},
				{name: "cluster_level", kind: flag},
				{name: "categories", kind: texts},
			},
			status: 200, answers: models.EventList{}, errors: []int{401, 403, 404, 405, 500},
		},
		"v2TriggerEvent": {say: "Report an event",
			takes:  models.Event{},
			status: 201, errors: []int{400, 401, 403, 404, 405, 409, 500, 501, 503},
		},
		"v2DownloadHostIgnition": {say: "Download the ignition config of a host (for its installer)",
			status: 200, answers: file{}, errors: []int{401, 403, 404, 405, 409, 500, 503},
		},
		"ListInfraEnvs": {say: "List the infra-envs",
			parameters: []parameter{
				{name: "cluster_id", kind: identity},
				{name: "owner"},
			},
			status: 200, answers: models.InfraEnvList{}, errors: []int{401, 403, 405, 500, 501, 503},
		},
		"RegisterInfraEnv": {say: "Create an infra-env",
			takes:  models.InfraEnvCreateParams{},
			status: 201, answers: models.InfraEnv{}, errors: []int{400, 401, 403, 404, 405, 409, 500, 501},
		},
		"GetInfraEnv": {say: "Show an infra-env", status: 200, answers: models.InfraEnv{},
			errors: []int{401, 403, 404, 405, 500, 501, 503}},
		"UpdateInfraEnv": {say: "Change an infra-env; fields that are absent or null stay",
			takes:  models.InfraEnvUpdateParams{},
			status: 201, answers: models.InfraEnv{}, errors: []int{400, 401, 403, 404, 405, 409, 500, 501},
		},
		"DeregisterInfraEnv": {say: "Delete an infra-env", status: 204, errors: []int{401, 403, 404, 405, 409,
			500, 501}},
		"v2DownloadInfraEnvFiles": {say: "Download a file of an infra-env",
			parameters: []parameter{
				{name: "file_name", required: true, values: []string{"discovery.ign", "ipxe-script",
					"static-network-config"}},
				{name: "mac"},
				{name: "ipxe_script_type", values: []string{"discovery-image-always", "boot-order-control"}},
				{name: "discovery_iso_type", values: []string{"full-iso", "minimal-iso", "disconnected-iso"}},
			},
			status: 200, answers: file{}, errors: []int{400, 401, 403, 404, 405, 409, 500, 501, 503},
		},
		"GetInfraEnvPresignedFileURL": {say: "Get a link to a file of an infra-env",
			parameters: []parameter{
				{name: "file_name", required: true, values: []string{"discovery.ign", "ipxe-script"}},
				{name: "ipxe_script_type", values: []string{"discovery-image-always", "boot-order-control"}},
			},
			status: 200, answers: models.PresignedURL{}, errors: []int{401, 403, 404, 405, 500, 501, 503},
		},
		"GetInfraEnvDownloadURL": {say: "Get the address of an infra-env's image", status: 200,
			answers: models.PresignedURL{}, errors: []int{400, 401, 403, 404, 405, 500, 501, 503}},
		"DownloadMinimalInitrd": {say: "Download what a minimal image's initrd gets on top",
			status: 200, also: 204, answers: file{}, errors: []int{401, 403, 404, 405, 409, 500},
		},
		"v2ListHosts": {say: "List the hosts of an infra-env", status: 200, answers: models.HostList{},
			errors: []int{401, 403, 405, 500, 501, 503}},
		"v2RegisterHost": {say: "Register a host (for its agent)",
			parameters: []parameter{
				{name: "discovery_agent_version", in: "header"},
			},
			takes:  models.HostCreateParams{},
			status: 201, answers: models.HostRegistrationResponse{}, errors: []int{400, 401, 403, 404, 405, 409,
				500, 501, 503},
		},
		"v2GetHost": {say: "Show a host", status: 200, answers: models.Host{}, errors: []int{401, 403, 404, 405,
			500, 501}},
		"v2UpdateHost": {say: "Change a host's name, role, disks and labels",
			takes:  models.HostUpdateParams{},
			status: 201, answers: models.Host{}, errors: []int{400, 401, 403, 404, 405, 409, 500},
		},
		"v2DeregisterHost": {say: "Delete a host", status: 204, errors: []int{400, 401, 403, 404, 405, 500}},
		"BindHost": {say: "Give a host to a cluster",
			takes:  models.BindHostParams{},
			status: 200, answers: models.Host{}, errors: []int{400, 401, 403, 404, 405, 500, 501, 503},
		},
		"v2InstallHost": {say: "Install a host that joins an installed cluster",
			status: 202, answers: models.Host{}, errors: []int{401, 403, 404, 409, 500},
		},
		"v2ResetHost": {say: "Take a host that joins an installed cluster back from its installation",
			status: 200, answers: models.Host{}, errors: []int{401, 403, 404, 409, 500},
		},
		"v2ResetHostValidation": {say: "Have a check that is made once made again", status: 200, answers: models.Host{},
			errors: []int{400, 401, 403, 404, 409, 500}},
		"UnbindHost": {say: "Take a host from its cluster", status: 200, answers: models.Host{},
			errors: []int{400, 401, 403, 404, 405, 409, 500, 501, 503}},
		"v2GetHostIgnition": {say: "Show the ignition config of a host", status: 200,
			answers: models.HostIgnitionParams{}, errors: []int{401, 403, 404, 405, 500, 501, 503}},
		"v2UpdateHostIgnition": {say: "Override the ignition config of a host",
			takes:  models.HostIgnitionParams{},
			status: 201, errors: []int{400, 401, 403, 404, 405, 500, 501},
		},
		"v2UpdateHostInstallerArgs": {say: "Set the arguments of a host's installer",
			takes:  models.InstallerArgsParams{},
			status: 201, answers: models.Host{}, errors: []int{400, 401, 403, 404, 405, 409, 500, 501},
		},
		"v2GetNextSteps": {say: "Ask what to do next (for agents)",
			parameters: []parameter{
				{name: "timestamp", kind: number},
				{name: "discovery_agent_version", in: "header"},
			},
			status: 200, answers: models.Steps{}, errors: []int{401, 403, 404, 405, 500, 501, 503},
		},
		"v2PostStepReply": {say: "Answer a step (for agents)",
			parameters: []parameter{
				{name: "discovery_agent_version", in: "header"},
			},
			takes:  models.StepReply{},
			status: 204, errors: []int{400, 401, 403, 404, 405, 500, 501, 503},
		},
		"v2UpdateHostLogsProgress": {say: "Report how far a host's logs are (for its installer)",
			takes:  models.LogsProgressParams{},
			status: 204, errors: []int{401, 403, 404, 405, 409, 500, 501, 503},
		},
		"v2UpdateHostInstallProgress": {say: "Report the stage of a host's installation (for its installer and the " +
			"controller)",
			parameters: []parameter{
				{name: "discovery_agent_version", in: "header"},
			},
			takes:  models.HostProgress{},
			status: 200, errors: []int{401, 403, 404, 405, 500, 503},
		},
		"RegenerateInfraEnvSigningKey": {say: "End the addresses of an infra-env's image that were handed out",
			status: 204, errors: []int{401, 403, 404, 405, 500},
		},
		"v2ListSupportedOpenshiftVersions": {say: "List the OpenShift releases that clusters can be made of",
			parameters: []parameter{
				{name: "version"},
				{name: "only_latest", kind: flag},
			},
			status: 200, answers: models.OpenshiftVersions{}, errors: []int{400, 500, 503},
		},
		"V2ListBundles": {say: "List the sets of operators",
			parameters: []parameter{
				{name: "openshift_version"},
				{name: "cpu_architecture", values: []string{"x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"}},
				{name: "platform_type", values: []string{"baremetal", "none", "nutanix", "vsphere", "external"}},
				{name: "external_platform_name"},
				{name: "feature_ids", kind: texts},
			},
			status: 200, answers: []models.Bundle{}, errors: []int{400, 500},
		},
		"V2GetBundle": {say: "Show a set of operators",
			parameters: []parameter{
				{name: "feature_ids", kind: texts},
			},
			status: 200, answers: models.Bundle{}, errors: []int{400, 404, 500},
		},
		"v2ListReleaseSources": {say: "List the channels that releases are taken from",
			status: 200, answers: models.ReleaseSources{}, errors: []int{},
		},
		"GetSupportedArchitectures": {say: "Show the support level of each architecture",
			parameters: []parameter{
				{name: "openshift_version", required: true},
			},
			status: 200, answers: architectureLevels{}, errors: []int{400, 401, 403, 404, 503},
		},
		"GetSupportedFeatures": {say: "Show the support level of each feature",
			parameters: []parameter{
				{name: "openshift_version", required: true},
				{name: "cpu_architecture", values: []string{"x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"}},
				{name: "platform_type", values: []string{"baremetal", "none", "nutanix", "vsphere", "external"}},
				{name: "external_platform_name"},
			},
			status: 200, answers: featureLevels{}, errors: []int{400, 401, 403, 404, 503},
		},
		"GetDetailedSupportedFeatures": {say: "Show features and operators with what stands against them",
			parameters: []parameter{
				{name: "openshift_version", required: true},
				{name: "cpu_architecture", values: []string{"x86_64", "arm64", "ppc64le", "s390x", "multi"}},
				{name: "platform_type", values: []string{"baremetal", "none", "nutanix", "vsphere", "external"}},
				{name: "external_platform_name"},
			},
			status: 200, answers: detailedLevels{}, errors: []int{400, 401, 403, 500},
		},
		"V2ListSupportedOperators": {say: "List the operators that clusters can be installed with",
			status: 200, answers: []string{}, errors: []int{401, 403, 500},
		},
		"V2ListOperatorProperties": {say: "List what can be set of an operator", status: 200,
			answers: models.OperatorProperties{}, errors: []int{401, 403, 404, 500}},
	}
}
