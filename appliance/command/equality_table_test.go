package command

// equalityFiles are the files that the lines name.
var equalityFiles = map[string]string{
	"manifest.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n",
	"networks.yaml": "[]\n",
	"secret.txt":    "secret\n",
	"password.txt":  "a long password of the demo\n",
	"servers.csv":   "name,address,username,password\nserver-9,redfish://192.0.2.9,root,calvin\n",
	"live.iso":      "not an ISO\n",
	"fields.yaml":   "fips: true\n",
	"hosts.yaml":    "hosts: [{macs: ['52:54:00:00:00:99'], host_name: master-0}]\n",
	"idms.yaml": "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: a}\nspec:\n" +
		"  imageDigestMirrors:\n  - {source: example.com/a, mirrors: [registry.example.com/a]}\n",
}

// equalityLines call every command that sends requests. The demo has an installed cluster, its
// infra-env and a server.
const equalityLines = `
status
replica status
fleet status
fleet init --etcd http://127.0.0.1:9
fleet leave --yes
fleet forget b --yes
fleet end --yes
overview
doctor
setup
api GET /health
cluster list
cluster show demo
cluster set demo tags=a
cluster export demo
cluster wait demo
cluster progress demo
cluster create east --version 4.20 --base-domain example.com --control-planes 1
cluster install east
cluster cancel east --yes
cluster reset east --yes
cluster add-hosts demo
cluster apply-hosts east -f hosts.yaml
cluster import old --api api.old.example.com --openshift-id 6c1a5c3c-1a3e-4a3e-8e1a-6a1a5c3c1a3e
cluster install-config east
cluster install-config east -f fields.yaml
infra-env create east --cluster east
infra-env list
infra-env show east
infra-env set east image_type=full-iso
infra-env file east discovery.ign
image url --infra-env east
image short-url --infra-env east
image short-url --infra-env east --renew
image short-url --infra-env east --revoke
image reads --infra-env east
image download --infra-env east -o east.iso
image verify east.iso --infra-env east
host list
host show host-1
host missing
host set host-1 --role worker
host bind host-1 --cluster east
host unbind host-1
host approve host-1
host install host-1
host reset host-1 --yes
events --cluster demo
logs --cluster demo -o logs.tar
manifest add manifest.yaml --cluster east
manifest list --cluster east
manifest replace manifest.yaml --cluster east
manifest show manifest.yaml --cluster east
manifest remove manifest.yaml --cluster east --yes
operator list
operator list --cluster east
operator bundles
operator image-set --cluster east
network show --infra-env east
network check -f networks.yaml --infra-env east
network set -f networks.yaml --infra-env east
hcp bundles
hcp connection decide mgmt b1 ignore
hcp connection hold mgmt
hcp connection mgmt
hcp connection release mgmt --yes
hcp consumers
hcp consumers add mgmt --force --image registry.example.com/maestro:v1
hcp consumers agent mgmt
hcp consumers agent mgmt --apply
hcp consumers workers mgmt
hcp consumers workers set mgmt --own
hcp consumers remove mgmt --yes
hcp create east-hcp
hcp delete east-hcp --yes
hcp kubeconfig east-hcp
hcp list
hcp scale east-hcp workers 3
hcp show east-hcp
registry status
registry status --cluster demo
registry add .
registry remove stick/mirror_000001.tar
registry verify
registry stage all
registry stage all --cancel
registry gc
registry hand-over --status
registry hand-over mirror.example.com:5000 --add-mirror --yes --detach
registry hand-over --remove-first --yes --detach
registry hand-over --cancel
check
check --repair
backup -o site.backup
restore site.backup --data-dir restored --compare {url}
site status
site dns status
site dns records
site dns enable lo
site dns disable lo --yes
site dhcp status
site dhcp enable lo
site dhcp events
site dhcp leases
site dhcp reservations
site dhcp reserve 52:54:00:00:00:01 192.0.2.10
site dhcp unreserve 52:54:00:00:00:01 --yes
site dhcp disable lo --yes
site tftp status
site tftp enable lo
site tftp disable lo --yes
site ntp status
site ntp enable lo
site ntp disable lo --yes
settings show
settings set --ntp 192.0.2.1
settings release add 4.20
settings release remove 4.20.8-standin
settings webhook list
settings webhook add chat https://chat.example.com
settings webhook test chat
settings webhook remove chat --yes
agent-tokens list
agent-tokens list --infra-env east
agent-tokens accept-none 1h --infra-env east
agent-tokens renew --infra-env east
agent-tokens revoke --infra-env servers --yes
sealed-images show --infra-env east
sealed-images seal --infra-env east
sealed-images close --infra-env east
sealed-images unseal --infra-env east
ams status
ams accept
ams connect
ams create-again demo
ams edit demo --name new
ams export -o couriers.lfc
ams import couriers.lfc
ams leave demo --yes
ams login --offline-token-file secret.txt
ams logout
ams plan
ams retry demo
ams reverify
ams revoke 1
ams token
ams token list
ams token revoke 1
audit
audit export -o audit.tar
audit verify
bmc list
bmc add server-8 redfish://192.0.2.8 --username root --password-file secret.txt
bmc show server-1
bmc set server-1 infra_env_id=east
bmc boot server-1 --infra-env east
bmc eject server-1
bmc inspect server-1
bmc import servers.csv
bmc log server-1
bmc power off server-1
bmc remove server-1 --yes
apply -f manifest.yaml
delete -f manifest.yaml
kubeconfig --cluster demo -o demo.kubeconfig
kubeconfig -o site.kubeconfig
credentials --cluster demo
export abi --cluster demo -o abi.tar
export acm demo -o acm
import abi abi.tar --check
import acm acm
iso list
iso import live.iso --no-wait
iso import https://127.0.0.1:9/live.iso --no-wait
iso import --release 4.20 --no-wait
iso verify
iso remove {iso} --yes
journal export --cluster demo -o demo.journal
mirror show
mirror explain quay.io/a/b:c
mirror import idms.yaml
mirror remove idms.yaml --yes
mirror accept-gaps --cluster east
mirror later --cluster demo
mirror prove --cluster east
mirror proofs
mirror proofs --list 1
release list
release allow sha256:0000000000000000000000000000000000000000000000000000000000000000
release forget sha256:0000000000000000000000000000000000000000000000000000000000000000
rehearse --cluster east
seal rotate
support -o support.tar.gz
session list
session end 1
token list
token create ci --role viewer
token revoke ci
user list
user create anna --role viewer --password-file password.txt
user set anna --role operator
user password anna --password-file password.txt
user delete anna --yes
login --user anna --password-file password.txt
login --user anna --password-file password.txt --setup-code 1234
logout
host remove host-1 --yes
infra-env delete east --yes
cluster delete east --yes
`

// localCommands are the commands that call no operation.
var localCommands = map[string]string{
	"ams push":                    "runs where AMS can be reached, and not at the site",
	"completion":                  "completes commands in the shell",
	"context list":                "shows the logins on this machine",
	"context remove":              "changes the logins on this machine",
	"context use":                 "changes the logins on this machine",
	"courier fill":                "runs where the internet can be reached, and not at the site",
	"promote":                     "writes a data directory on this machine, while no appliance runs there",
	"replica claim":               "changes a replica on this machine, while its appliance does not run",
	"replica verify":              "reads files of this machine",
	"courier push":                "writes to a registry, and not to the appliance",
	"fleet join":                  "writes a data directory on this machine; it reads what backup reads",
	"docs":                        "shows documents of this program",
	"demo":                        "starts an appliance of its own",
	"iso build":                   "reads and writes files of this machine",
	"iso diff":                    "reads files of this machine",
	"iso extract":                 "reads files of this machine",
	"iso inspect":                 "reads files of this machine",
	"journal replay":              "reads a file of this machine",
	"man":                         "writes files of this machine",
	"serve":                       "starts the appliance",
	"service install":             "changes the services of this machine",
	"service remove":              "changes the services of this machine",
	"service status":              "shows a service of this machine",
	"simulate example":            "writes an example of a scenario",
	"simulate hosts":              "hosts are machines and not people: they call the operations of agents",
	"simulate run":                "starts appliances of its own",
	"simulate management-cluster": "an agent is a machine and not a person: it connects to the broker",
	"upgrade":                     "replaces a program of this machine",
	"user reset":                  "writes into the data directory, for a person who can't log in",
	"version":                     "shows the version of this program",
}

// kubernetesOf says how the Kubernetes API does what an operation does.
var kubernetesOf = map[string]string{
	"v2ListClusters":                "list `ClusterDeployment`",
	"v2RegisterCluster":             "create `ClusterDeployment` and `AgentClusterInstall`",
	"v2DeregisterCluster":           "delete `ClusterDeployment`",
	"v2GetCluster":                  "`AgentClusterInstall` status",
	"V2UpdateCluster":               "`AgentClusterInstall` spec",
	"TransformClusterToDay2":        "`AgentClusterInstall`: by itself when it is installed",
	"TransformClusterToAddingHosts": "`AgentClusterInstall`: by itself when it is installed",
	"v2ImportCluster":               "`ClusterDeployment` with spec.installed: true",
	"v2InstallCluster":              "`AgentClusterInstall`: by itself when its hosts are approved",
	"V2GetCredentials":              "`Secret` in spec.clusterMetadata.adminPasswordSecretRef of `ClusterDeployment`",
	"V2DownloadClusterCredentials":  "`Secret` in spec.clusterMetadata.adminKubeconfigSecretRef of `ClusterDeployment`",
	"ListClusterHosts":              "list `Agent`",
	"v2UpdateClusterInstallConfig":  "`AgentClusterInstall` annotation install-config-overrides",
	"V2DownloadClusterLogs":         "`AgentClusterInstall` status.debugInfo.logsURL",
	"V2ListClusterManifests":        "`ConfigMap` in spec.manifestsConfigMapRefs of `AgentClusterInstall`",
	"V2CreateClusterManifest":       "`ConfigMap` in spec.manifestsConfigMapRefs of `AgentClusterInstall`",
	"V2UpdateClusterManifest":       "`ConfigMap` in spec.manifestsConfigMapRefs of `AgentClusterInstall`",
	"V2DeleteClusterManifest":       "`ConfigMap` in spec.manifestsConfigMapRefs of `AgentClusterInstall`",
	"v2DownloadClusterManifest":     "`ConfigMap` in spec.manifestsConfigMapRefs of `AgentClusterInstall`",
	"v2ListEvents":                  "`AgentClusterInstall` status.debugInfo.eventsURL; `Event`",
	"ListInfraEnvs":                 "list `InfraEnv`",
	"RegisterInfraEnv":              "create `InfraEnv`",
	"DeregisterInfraEnv":            "delete `InfraEnv`",
	"GetInfraEnv":                   "`InfraEnv` status",
	"UpdateInfraEnv":                "`InfraEnv` spec; `NMStateConfig` for static networks",
	"v2DownloadInfraEnvFiles":       "`InfraEnv` status.bootArtifacts",
	"GetInfraEnvDownloadURL":        "`InfraEnv` status.isoDownloadURL",
	"v2ListHosts":                   "list `Agent`",
	"v2GetHost":                     "`Agent` status",
	"v2DeregisterHost":              "delete `Agent`",
	"v2UpdateHost":                  "`Agent` spec",
	"BindHost":                      "`Agent` spec.clusterDeploymentName",
	"UnbindHost":                    "`Agent` without spec.clusterDeploymentName",
	"v2InstallHost":                 "`Agent` spec.approved",
	"approveHost":                   "`Agent` spec.approved",
	"v2UpdateHostIgnition":          "`Agent` spec.ignitionConfigOverrides",
	"v2UpdateHostInstallerArgs":     "`Agent` spec.installerArgs",
	"listAllHosts":                  "list `Agent`",
	"listBMCs":                      "list `BareMetalHost`",
	"createBMC":                     "create `BareMetalHost` and its `Secret`",
	"deleteBMC":                     "delete `BareMetalHost`",
	"getBMC":                        "`BareMetalHost` status; `HardwareData`",
	"updateBMC":                     "`BareMetalHost` spec",
	"bootBMC":                       "`BareMetalHost` with the label of an infra-env; `PreprovisioningImage`",
	"powerBMC":                      "`BareMetalHost` spec.online",
	"importMirror":                  "`ConfigMap` in spec.mirrorRegistryRef of `InfraEnv`",
	"deleteMirrorImport":            "`InfraEnv` without spec.mirrorRegistryRef",
	"fetchOSImage":                  "`AgentServiceConfig` spec.osImages",
	"getSettings":                   "list `ClusterImageSet`",
	"addRelease":                    "create `ClusterImageSet`, for a release that may be used",
	"v2GetIgnoredValidations":       "`AgentClusterInstall` annotations of ignored validations",
	"v2SetIgnoredValidations":       "`AgentClusterInstall` annotations of ignored validations",
	"importBMCs":                    "create `BareMetalHost` and its `Secret` for each server",
	"listAllClusters":               "list `ClusterDeployment`",
	"getHosted":                     "list `HostedCluster` and `NodePool`",
	"getHostedDetail":               "`HostedCluster` and `NodePool`",
	"listHostedBundles":             "list `ManifestWork`",
	"getHostedBundle":               "`ManifestWork`",
	"whoami":                        "create `SelfSubjectReview`",
	"followChanges":                 "watch any kind",
}

// kubernetesGaps are the operations that the Kubernetes API does not have, by the reason.
var kubernetesGaps = map[string]string{
	"as on a hub: delete the ClusterDeployment instead":             "V2CancelInstallation",
	"as on a hub: delete the ClusterDeployment and create it again": "v2ResetCluster",
	noKind: "V2GetPresignedForClusterCredentials V2DownloadClusterFiles V2GetPresignedForClusterFiles " +
		"v2GetClusterInstallConfig v2GetPreflightRequirements GetClusterSupportedPlatforms " +
		"V2GetClusterUISettings V2UpdateClusterUISettings V2GetClusterDefaultConfig " +
		"v2RegisterDisconnectedCluster v2ListComponentVersions V2ListManagedDomains " +
		"GetInfraEnvPresignedFileURL DownloadMinimalInitrd v2ResetHostValidation v2GetHostIgnition " +
		"RegenerateInfraEnvSigningKey v2GetOpenAPI v2ListSupportedOpenshiftVersions V2ListBundles V2GetBundle " +
		"v2ListReleaseSources GetSupportedArchitectures GetSupportedFeatures GetDetailedSupportedFeatures " +
		"V2ListSupportedOperators V2ListOperatorProperties importABI ejectBMC inspectBMC listBMCConversations " +
		"exportABI downloadJournal acceptMirrorGaps listClusterOperatorAvailability checkClusterOperators " +
		"getClusterOperatorImageSet getInstallationProgress startRehearsal getRehearsal getMirrorLater " +
		"diagnoseSite getAgentTokens acceptTokenlessHosts renewAgentTokens revokeAgentTokens getImage " +
		"listImageReads unsealImage getSealedImage sealImage closeSealedImage revokeShortURL renewShortURL " +
		"previewStaticNetwork getKubernetes getMirror explainMirror listMirrorProofs startMirrorProof " +
		"getMirrorProof downloadMirrorProofList explainMissingHosts listOperatorAvailability getOverview " +
		"listTokenlessHosts",
	"as on a hub: AgentClusterInstall has only failed operators": "V2ListOfClusterOperators",
	"as on a hub: remove spec.clusterDeploymentName instead":     "v2ResetHost",
	ofAppliance: "getAMS acceptAMS createAMSClusterAgain editAMSCluster leaveAMSCluster retryAMSCluster connectAMS " +
		"deleteAMSCredentials setAMSCredentials exportAMS revokeAMSExport getAMSPlan importAMSReceipts " +
		"reverifyAMS listAMSSubscriptions getAMSSubscription listAMSTokens issueAMSToken revokeAMSToken " +
		"listAuditTrail exportAuditTrail verifyAuditTrail downloadBackup listBackupObjects getClusterRegistry " +
		"rotateDataKey getFleet createFleet deleteFleet getFleetInvitation leaveFleet forgetFleetMember " +
		"checkStoredData repairStoredData listNotifications listOSImages deleteOSImage verifyOSImage " +
		"createOSImageUpload cancelOSImageUpload getOSImageUpload appendOSImageUpload getRegistry " +
		"collectRegistry getHandOver startHandOver cancelHandOver confirmHandOver addRegistryMedia " +
		"removeRegistryMedia stageRegistry cancelRegistryStage verifyRegistry listReleases allowRelease " +
		"forgetRelease " +
		"listSessions endSession changeSettings removeRelease listWebhooks " +
		"addWebhook removeWebhook testWebhook getSetup " +
		"setUp getSiteAddresses removeSiteReservation reserveSiteAddress getSiteServices disableSiteService " +
		"enableSiteService getStatus downloadSupportArchive listTokens createToken revokeToken listUsers " +
		"createUser deleteUser getUser updateUser setUserPassword getMetrics",
	"HostedCluster, NodePool and ManifestWork can only be read": "createHosted requestHostedKubeconfig " +
		"getHostedKubeconfig addManagementCluster removeManagementCluster getManagementAgent " +
		"applyManagementAgent getManagementWorkers setManagementWorkers " +
		"checkManagementCluster",
	inKubeconfig: "getLoginMethods logIn beginOIDCLogin finishOIDCLogin finishPasskeyLogin logOut",
	browserOnly:  "listPasskeys registerPasskey deletePasskey beginPasskey",
}

// kindReasons are the kinds that belong to no operation.
var kindReasons = map[string]string{
	"AgentClassification":   "labels Agents by their inventory; hosts of the other APIs have no labels",
	"KlusterletAddonConfig": "a hub reads it after an import; `landfall export acm` writes it",
	"ManagedCluster":        "a hub reads it after an import; `landfall export acm` writes it",
	"Namespace":             "groups the objects of a site; the other APIs have no groups",
}

// Reasons of several operations.
const (
	noKind       = "no kind of a hub has it"
	ofAppliance  = "no kind: it is about the appliance itself"
	ofForm       = "a default or choice of the page's forms; flags are checked by the appliance"
	inKubeconfig = "clients log in with a token or certificate in the kubeconfig"
	signedLink   = "a link with a signature for browsers; commands send their token"
	browserOnly  = "passkeys need a browser"
	notOfHost    = "the settings of a host (v2UpdateHost) do not include it; `landfall api` calls it"
	ignoring     = "a failed validation is shown with its reason; only `landfall api` tells the appliance to ignore it"
	runsAgain    = "both checks that it resets run again at the next preparation; `landfall api` resets them earlier"
	ofMirror     = "the operators' validations name a missing catalog; `landfall api` lists and checks images"
	withCluster  = "each host reports the validation compatible-with-cluster-platform"
	noProperty   = "no operator has properties: the answer is always empty"
	ofBundles    = "V2ListBundles has the same fields of all bundles"
	ofMinimal    = "a part of the minimal image, which the appliance builds itself"
	byTwo        = "renewAgentTokens and renewShortURL do the same"
	forHost      = "the host reads it; it contains secrets, and only `landfall api` shows it"
	inAMS        = "getAMS has the state of each; the objects of AMS are for the ocm command"
	byBrowser    = "the provider answers to a browser; commands log in with a token"
	libraryOnly  = "the page's library contains the request; no page of Landfall sends it"
)

// equalityReasons has a reason for each gap. A key is a side and an operation, or a side and the
// beginning of the operations' paths.
var equalityReasons = map[string]string{
	"command listNotifications":                   "`events` shows the events behind the notifications",
	"command V2GetPresignedForClusterCredentials": signedLink,
	"command V2GetPresignedForClusterFiles":       signedLink,
	"command GetInfraEnvPresignedFileURL":         signedLink,
	"command V2DownloadClusterFiles":              "its main files have their own requests, as in `kubeconfig`",
	"command ListClusterHosts":                    "`host list --cluster` reads the hosts of the infra-envs",
	"command v2GetIgnoredValidations":             ignoring,
	"command v2SetIgnoredValidations":             ignoring,
	"command GetClusterSupportedPlatforms":        withCluster,
	"command V2GetClusterUISettings":              "the state of the wizard in the browser",
	"command V2UpdateClusterUISettings":           "the state of the wizard in the browser",
	"command DownloadMinimalInitrd":               ofMinimal,
	"command v2ResetHostValidation":               runsAgain,
	"command v2GetHostIgnition":                   forHost,
	"command v2UpdateHostIgnition":                notOfHost,
	"command v2UpdateHostInstallerArgs":           notOfHost,
	"command RegenerateInfraEnvSigningKey":        byTwo,
	"command V2GetBundle":                         ofBundles,
	"command GetSupportedArchitectures":           ofForm,
	"command GetSupportedFeatures":                ofForm,
	"command GetDetailedSupportedFeatures":        ofForm,
	"command V2ListOperatorProperties":            noProperty,
	"command listAMSSubscriptions":                inAMS,
	"command getAMSSubscription":                  inAMS,
	"command listClusterOperatorAvailability":     ofMirror,
	"command listOperatorAvailability":            ofMirror,
	"command checkClusterOperators":               ofMirror,
	"command beginOIDCLogin":                      byBrowser,
	"command finishOIDCLogin":                     byBrowser,
	"command getUser":                             "`user list` has the same fields",
	"command getMetrics":                          "for Prometheus",
	"command V2GetClusterDefaultConfig":           ofForm,
	"command v2GetPreflightRequirements":          "`host show` names what a host lacks",
	"command v2RegisterDisconnectedCluster":       libraryOnly,
	"command v2ListComponentVersions":             "`status` shows the versions",
	"command V2ListManagedDomains":                "the list is always empty: a site has no domains of a service",
	"command v2GetOpenAPI":                        "`api GET openapi` shows it",
	"command v2ListReleaseSources":                "`settings show` lists the releases",
	"command TransformClusterToAddingHosts":       "`cluster add-hosts` calls TransformClusterToDay2 for the same",
	"command listAllClusters":                     "`cluster list` shows the same facts with the fields of the API",
	"command getHostedBundle":                     "`hcp bundles NAME` shows it, if there is one",
	"command getHostedKubeconfig":                 "`hcp kubeconfig` calls it once the request is answered",
	"command v2GetHost":                           "`host show` reads it from the list of hosts",
	"command listAllHosts":                        "`host list` shows the same facts with the fields of the API",
	"command finishPasskeyLogin":                  browserOnly,
	"command listPasskeys":                        browserOnly,
	"command registerPasskey":                     browserOnly,
	"command deletePasskey":                       browserOnly,
	"command beginPasskey":                        browserOnly,
	"command getOSImageUpload":                    "`iso import` asks for it after a broken connection",
	"command setUp":                               "`login --setup-code` calls it at an appliance without accounts",
	"command cancelOSImageUpload":                 "`iso remove` removes an incomplete upload as an image",

	"page ListClusterHosts":                "listAllHosts has the hosts of all clusters",
	"page v2GetIgnoredValidations":         ignoring,
	"page v2SetIgnoredValidations":         ignoring,
	"page GetClusterSupportedPlatforms":    withCluster,
	"page V2ListOfClusterOperators":        "v2GetCluster has the same operators",
	"page v2DownloadInfraEnvFiles":         "the page downloads by a signed link",
	"page DownloadMinimalInitrd":           ofMinimal,
	"page v2ResetHostValidation":           runsAgain,
	"page v2GetHostIgnition":               forHost,
	"page v2UpdateHostIgnition":            notOfHost,
	"page v2UpdateHostInstallerArgs":       notOfHost,
	"page RegenerateInfraEnvSigningKey":    byTwo,
	"page V2GetBundle":                     ofBundles,
	"page GetDetailedSupportedFeatures":    "GetSupportedFeatures has what the wizard asks for",
	"page V2ListOperatorProperties":        noProperty,
	"page getAMSPlan":                      "the page shows which clusters wait; `ams plan` shows the requests",
	"page reverifyAMS":                     "a step after a backup is restored on the machine: `ams reverify`",
	"page listAMSSubscriptions":            inAMS,
	"page getAMSSubscription":              inAMS,
	"page updateBMC":                       "on the page, a server is removed and added again; `bmc set` changes it",
	"page listClusterOperatorAvailability": ofMirror,
	"page listOperatorAvailability":        ofMirror,
	"page checkClusterOperators":           ofMirror,
	"page getClusterOperatorImageSet":      "the file is for oc-mirror on a connected machine: `operator image-set`",
	"page listHostedBundles":               "getHostedDetail has the bundles of each hosted cluster",
	"page /metrics":                        "for Prometheus",
	"page importABI":                       "a directory of files: `import abi`",
	"page exportABI":                       "a directory of files: `export abi`",
	"page acceptMirrorGaps":                "a decision for experts: `mirror accept-gaps`",
	"page getMirrorLater":                  "`mirror later` shows it",
	"page downloadSupportArchive":          "the archive is for a person at another place: `support`",
	"page downloadBackup":                  "a backup belongs on another machine or medium: `backup`",
	"page listBackupObjects":               "a restore compares a backup with them: `restore --compare`",
	"page checkStoredData":                 "the page shows the damage that was noticed; `check` reads everything",
	"page repairStoredData":                "a repair is for the administrator of the machine: `check --repair`",
	"page createFleet":                     "a rare operation of administrators: `fleet init`",
	"page deleteFleet":                     "a rare operation of administrators: `fleet end`",
	"page leaveFleet":                      "a rare operation of administrators: `fleet leave`",
	"page forgetFleetMember":               "a rare operation of administrators: `fleet forget`",
	"page getFleetInvitation":              "a machine that joins calls it: `fleet join`",
	"command getFleetInvitation":           "a machine that joins calls it: `fleet join`",
	"page rotateDataKey":                   "a rare operation of administrators: `seal rotate`",
	"page getKubernetes":                   "`kubeconfig` writes the file for kubectl",
	"page listTokenlessHosts":              "`agent-tokens list` shows them",
	"page getUser":                         "the list of accounts has the same fields",
	"page beginOIDCLogin":                  "the login page links to the URL in getLoginMethods",
	"page finishOIDCLogin":                 "the provider sends the browser there",
	"page V2DownloadClusterFiles":          "the page downloads by a signed link",
}

const equalityIntroduction = "# Page, command line, REST and Kubernetes API\n\n" +
	"This document is generated by `make docs`. It compares what people and programs can do by each way. The\n" +
	"REST operations are those of [security.md](security.md), without the operations of machines, the downloads\n" +
	"of images, and the APIs that check their callers themselves. The requests of the page are read from its\n" +
	"source and from the UI library of the Assisted Installer. The commands are run against a demo, and a\n" +
	"command counts if it sends the request of the operation. The reconcilers and the definitions of the\n" +
	"resources confirm the kinds and fields of the Kubernetes API. A cell with – has the reason for the gap.\n"
