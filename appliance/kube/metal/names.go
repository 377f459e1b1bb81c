package metal

// Labels, annotations and finalizers of the Assisted Installer's controllers and of metal3.
const (
	infraEnvLabel    = "infraenvs.agent-install.openshift.io" // on hosts, images and Agents: name of the InfraEnv
	agentHostLabel   = "agent-install.openshift.io/bmh"       // on an Agent: name of its BareMetalHost
	backupLabel      = "cluster.open-cluster-management.io/backup"
	environmentLabel = "environment.metal3.io" // on the Secrets of BMCs
	noBackupLabel    = "velero.io/exclude-from-backup"
	environmentMetal = "baremetal"
	fencingSuffix    = "-fencing-credentials" // after the name of an Agent: its Secret

	roleAnnotation              = "bmac.agent-install.openshift.io/role"
	hostnameAnnotation          = "bmac.agent-install.openshift.io/hostname"
	poolAnnotation              = "bmac.agent-install.openshift.io/machine-config-pool"
	installerArgsAnnotation     = "bmac.agent-install.openshift.io/installer-args"
	ignitionAnnotation          = "bmac.agent-install.openshift.io/ignition-config-overrides"
	clusterReferenceAnnotation  = "bmac.agent-install.openshift.io/cluster-reference"
	nodeLabelPrefix             = "bmac.agent-install.openshift.io.node-label."
	agentLabelPrefix            = "bmac.agent-install.openshift.io.agent-label."
	removeAgentAnnotation       = "bmac.agent-install.openshift.io/remove-agent-and-node-on-delete"
	manageProvisionedAnnotation = "bmac.agent-install.openshift.io/allow-provisioned-host-management"
	spokeCreatedAnnotation      = "bmac.agent-install.openshift.io/spoke-bmh-machine-created"
	drainStatusAnnotation       = "bmac.agent-install.openshift.io/drain-status"
	drainTimeoutAnnotation      = "bmac.agent-install.openshift.io/drain-timeout"
	drainStartedAnnotation      = "bmac.agent-install.openshift.io/drain-started-at"
	fencingNameAnnotation       = "bmac.agent-install.openshift.io/fencing-credentials-secret-name"
	fencingCreateAnnotation     = "bmac.agent-install.openshift.io/create-fencing-credentials-secret"
	ironicImageAnnotation       = "infraenv.agent-install.openshift.io/ironic-agent-image-override"

	inheritedLabelsAnnotation = "agent.agent-install.openshift.io/inherited-node-labels"
	classificationPrefix      = "agentclassification.agent-install.openshift.io/" // of labels of Agents

	detachedAnnotation = "baremetalhost.metal3.io/detached"
	pausedAnnotation   = "baremetalhost.metal3.io/paused"
	statusAnnotation   = "baremetalhost.metal3.io/status"
	inspectAnnotation  = "inspect.metal3.io"
	hardwareAnnotation = "inspect.metal3.io/hardwaredetails"
	rebootAnnotation   = "reboot.metal3.io" // alone, or followed by /<key>

	byAssisted = "assisted-service-controller" // the value of detached and paused when BMAC sets them
	disabled   = "disabled"

	hostFinalizer        = "baremetalhost.metal3.io"
	agentHostFinalizer   = "bmac.agent-install.openshift.io/deprovision"
	secretFinalizer      = "baremetalhost.metal3.io/secret"
	imageFinalizer       = "preprovisioningimage.metal3.io"
	agentImageFinalizer  = "preprovisioningimage.agent-install.openshift.io/ai-deprovision"
	startAssistedInstall = "start_assisted_install" // the deploy method of the converged flow

	boundCondition        = "Bound" // condition of an Agent
	unbindingPending      = "UnbindingPendingUserAction"
	imageCreatedCondition = "ImageCreated" // condition of an InfraEnv
	infraEnvAvailable     = "InfraEnvAvailable"
	imageCreationError    = "ImageCreationError"

	operatorComponent = "metal3-baremetal-controller" // components of Events
	agentComponent    = "baremetal-agent-controller"
)
