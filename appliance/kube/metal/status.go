package metal

import (
	"encoding/json"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/bmc"
)

// runOperator updates the status of a host, as the bare-metal operator does. It changes the
// provisioning state by at most one step, so that watchers see every state. The next reconcile
// changes it by the next step.
func (s *pass) runOperator() {
	host := s.host
	if host.DeletionTimestamp == nil {
		if !hasFinalizer(host, hostFinalizer) {
			host.Finalizers = append(host.Finalizers, hostFinalizer)
		}
		if s.annotated(pausedAnnotation) {
			return
		}
		s.restoreStatus()
	}
	before := *host.Status.DeepCopy()
	s.moveHardwareToStatus()
	if host.DeletionTimestamp != nil {
		s.setDeletionStatus()
	} else {
		s.setStatus()
	}
	if !sameStatus(before, host.Status) {
		host.Status.LastUpdated = s.time()
	}
}

func (s *pass) time() *metav1.Time {
	now := metav1.NewTime(s.now.Truncate(1e9))
	return &now
}

func hasFinalizer(host *metal3.BareMetalHost, finalizer string) bool {
	for _, own := range host.Finalizers {
		if own == finalizer {
			return true
		}
	}
	return false
}

func sameStatus(a, b metal3.BareMetalHostStatus) bool {
	one, errOne := json.Marshal(a)
	other, errOther := json.Marshal(b)
	return errOne == nil && errOther == nil && string(one) == string(other)
}

// restoreStatus restores the status of a new host from its annotation, which was written by the
// appliance or hub that managed the host before.
func (s *pass) restoreStatus() {
	text := s.host.Annotations[statusAnnotation]
	if text == "" || s.host.Status.Provisioning.State != metal3.StateNone || s.host.Status.LastUpdated != nil {
		return
	}
	var status metal3.BareMetalHostStatus
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return // admission rejects such an annotation
	}
	s.host.Status = status
	s.removeAnnotations(statusAnnotation)
}

// moveHardwareToStatus moves the hardware details from their annotation into the status.
func (s *pass) moveHardwareToStatus() {
	text := s.host.Annotations[hardwareAnnotation]
	if text == "" {
		return
	}
	var details metal3.HardwareDetails
	if err := json.Unmarshal([]byte(text), &details); err != nil {
		return // admission rejects such an annotation
	}
	if had := s.host.Status.HardwareDetails; had != nil && details.Firmware == (metal3.Firmware{}) {
		details.Firmware = had.Firmware // only the BMC reports the firmware
	}
	s.host.Status.HardwareDetails = &details
	s.removeAnnotations(hardwareAnnotation)
}

// annotateHardware writes the Agent's inventory into the annotation that the operator reads, unless
// the status already contains an inventory.
func (s *pass) annotateHardware() {
	had := s.host.Status.HardwareDetails
	if s.agent == nil || len(s.agent.Status.Inventory.Interfaces) == 0 || s.annotated(hardwareAnnotation) ||
		s.annotated(pausedAnnotation) || had != nil && had.Hostname != "" {
		return
	}
	text, err := json.Marshal(hardwareOf(s.agent))
	if err != nil {
		return // not possible for texts and numbers
	}
	s.annotate(hardwareAnnotation, string(text))
}

// setStatus updates the status from the state of the server.
func (s *pass) setStatus() {
	host := s.host
	status := &host.Status
	server := s.server
	if !host.HasBMCDetails() {
		status.OperationalStatus = metal3.OperationalStatusDiscovered
		status.Provisioning.State = metal3.StateUnmanaged
		s.clearError()
		return
	}
	s.setCredentialsStatus()
	if server != nil {
		status.Provisioning.ID = server.ID
		status.PoweredOn = server.Power == bmc.PowerOn || server.Power == bmc.PoweringOff
		if server.Power == bmc.PowerOff {
			// A reboot request without a key is complete once the server is off.
			s.removeAnnotations(rebootAnnotation)
		}
		if server.System != nil && status.HardwareDetails == nil {
			details := hardwareByBMC(server.System)
			status.HardwareDetails = &details
		}
		spans(&status.OperationHistory, server.Operations)
	}
	s.stepState()
	s.setErrorStatus()
}

func spans(history *metal3.OperationHistory, done bmc.OperationHistory) {
	metric := func(to *metal3.OperationMetric, from bmc.OperationMetric) {
		if !from.Start.IsZero() {
			to.Start, to.End = metav1.NewTime(from.Start.Truncate(1e9)), metav1.Time{}
		}
		if !from.End.IsZero() {
			to.End = metav1.NewTime(from.End.Truncate(1e9))
		}
	}
	metric(&history.Register, done.Register)
	metric(&history.Provision, done.Provision)
	metric(&history.Deprovision, done.Deprovision)
}

func (s *pass) setCredentialsStatus() {
	status, secret := &s.host.Status, s.secret
	if secret == nil || s.server == nil {
		return
	}
	tried := metal3.CredentialsStatus{
		Reference: &corev1.SecretReference{Namespace: secret.Namespace, Name: secret.Name},
		Version:   secret.ResourceVersion,
	}
	// CredentialsGood depends only on the contents of the Secret. The resourceVersion also changes
	// with the labels that the operator itself sets.
	if s.server.CredentialsGood && (status.GoodCredentials.Reference == nil ||
		*status.GoodCredentials.Reference != *tried.Reference || status.GoodCredentials.Version != tried.Version) {
		status.GoodCredentials = tried
	}
	status.TriedCredentials = tried
}

// stepState advances the provisioning state by one step if the condition of that step is met.
func (s *pass) stepState() {
	host, server := s.host, s.server
	provisioning := &host.Status.Provisioning
	registered := server != nil && server.System != nil && server.CredentialsGood && server.State != bmc.Registering
	switch provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged:
		provisioning.State = metal3.StateRegistering
		host.Status.OperationHistory.Register.Start = *s.time()
	case metal3.StateRegistering, metal3.StateMatchProfile:
		switch {
		case !registered:
		case host.Spec.ExternallyProvisioned:
			provisioning.State = metal3.StateExternallyProvisioned
		case host.WasProvisioned():
			provisioning.State = metal3.StateProvisioned
		default:
			provisioning.State = metal3.StateInspecting
			host.Status.OperationHistory.Inspect.Start = *s.time()
		}
	case metal3.StateInspecting:
		host.Status.OperationHistory.Inspect.End = *s.time()
		s.event(operatorComponent, false, "InspectionSkipped", inspectionSkipped(host))
		host.Status.HardwareProfile = "unknown"
		s.event(operatorComponent, false, "ProfileSet", "Hardware profile set: unknown")
		provisioning.State = metal3.StatePreparing
	case metal3.StatePreparing:
		provisioning.BootMode, provisioning.RootDeviceHints = host.BootMode(), host.Spec.RootDeviceHints.DeepCopy()
		s.warnIgnoredFields()
		provisioning.State = metal3.StateAvailable
	case metal3.StateAvailable, metal3.StateReady:
		s.stepFromAvailable()
	case metal3.StateProvisioning, metal3.StateProvisioned:
		s.stepFromBoot()
	case metal3.StateDeprovisioning:
		if server == nil || !server.Boot && server.State == bmc.Available {
			provisioning.Image, provisioning.CustomDeploy = metal3.Image{}, nil
			provisioning.State = metal3.StateAvailable
		}
	case metal3.StateExternallyProvisioned:
		if !host.Spec.ExternallyProvisioned {
			provisioning.State = metal3.StateInspecting
		}
	}
}

func inspectionSkipped(host *metal3.BareMetalHost) string {
	if host.Annotations[inspectAnnotation] == disabled {
		return "disabled by annotation"
	}
	return "This appliance has no Ironic for the inspection: the BMC reports a part of the hardware, and the agent " +
		"of the " +
		"booted image reports all of it."
}

// warnIgnoredFields writes an Event about fields of the spec that only Ironic could apply.
func (s *pass) warnIgnoredFields() {
	spec := &s.host.Spec
	if spec.RAID != nil || spec.Firmware != nil {
		s.event(operatorComponent, true, "PreparationSkipped",
			"spec.raid and spec.firmware are not applied: they require Ironic, which this appliance lacks. Set both "+
				"in the BMC's own interface.")
	}
}

func (s *pass) stepFromAvailable() {
	host := s.host
	switch {
	case host.Spec.ExternallyProvisioned:
		host.Status.Provisioning.State = metal3.StateExternallyProvisioned
	case host.Spec.Online && specifiesBoot(host) && s.bootable() == "" && !s.annotated(detachedAnnotation):
		if image := host.Spec.Image; image != nil {
			host.Status.Provisioning.Image = *image.DeepCopy()
		}
		host.Status.Provisioning.CustomDeploy = host.Spec.CustomDeploy.DeepCopy()
		host.Status.Provisioning.State = metal3.StateProvisioning
	}
}

// bootable returns the reason why a host can't boot the image or deploy method of its spec; "" if
// it can.
func (s *pass) bootable() string {
	image, deploy := s.host.Spec.Image, s.host.Spec.CustomDeploy
	switch {
	case image != nil && image.URL != "" && !image.IsLiveISO():
		return "spec.image is not a live ISO, and writing an image to a disk requires Ironic, which this appliance " +
			"lacks. " +
			"Label the host with " + infraEnvLabel + " to boot an InfraEnv's ISO, or set spec.image.format to live-iso."
	case image == nil && deploy != nil && deploy.Method != startAssistedInstall:
		return "spec.customDeploy names the method " + deploy.Method + ", which requires Ironic; only " +
			startAssistedInstall + " is supported."
	case image == nil && deploy != nil && s.engineID == "":
		return "spec.customDeploy starts an installation, but the host has no InfraEnv with an image; " +
			"label it with " + infraEnvLabel + "."
	}
	return ""
}

// stepFromBoot advances the state when the server has booted, and sets it to deprovisioning when
// the server must boot another image.
func (s *pass) stepFromBoot() {
	provisioning, server := &s.host.Status.Provisioning, s.server
	switch {
	case s.host.Status.OperationalStatus == metal3.OperationalStatusDetached:
	case mustDeprovision(s.host):
		provisioning.State = metal3.StateDeprovisioning
	case server != nil && server.Boot && server.State == bmc.Provisioned:
		provisioning.State = metal3.StateProvisioned
	}
}

// setErrorStatus sets or clears the error in the status.
func (s *pass) setErrorStatus() {
	status := &s.host.Status
	detached, _ := s.detachment()
	switch failure := credentialsFault(s.host, s.secret); {
	case detached:
		s.clearError()
		status.OperationalStatus = metal3.OperationalStatusDetached
	case failure != "":
		s.ownError(metal3.RegistrationError, "BMCCredentialError", failure)
	case s.refusal != "":
		s.ownError(metal3.RegistrationError, "RegistrationError", s.refusal)
	case s.server != nil && s.server.Error != nil:
		s.setError(metal3.ErrorType(s.server.Error.Type), s.server.Error.Message, s.server.Error.Count)
	case specifiesBoot(s.host) && s.bootable() != "":
		s.ownError(metal3.ProvisioningError, "ProvisioningError", s.bootable())
	default:
		s.clearError()
		status.OperationalStatus = metal3.OperationalStatusOK
	}
}

// ownError sets an error that the controller found itself. A new error also gets an Event.
func (s *pass) ownError(kind metal3.ErrorType, reason, message string) {
	if s.host.Status.ErrorMessage != message {
		s.event(operatorComponent, true, reason, message)
	}
	s.setError(kind, message, 1)
}

func (s *pass) setError(kind metal3.ErrorType, message string, count int) {
	status := &s.host.Status
	status.OperationalStatus = metal3.OperationalStatusError
	status.ErrorType, status.ErrorMessage, status.ErrorCount = kind, message, count
}

func (s *pass) clearError() {
	status := &s.host.Status
	status.ErrorType, status.ErrorMessage, status.ErrorCount = "", "", 0
}

// setDeletionStatus sets the state of a host that is being deleted. It sets s.released once the
// server no longer exists.
func (s *pass) setDeletionStatus() {
	state := &s.host.Status.Provisioning.State
	detached, delays := s.detachment()
	switch {
	case s.annotated(pausedAnnotation) || delays:
	case s.server == nil:
		if *state != metal3.StateDeleting {
			*state = metal3.StateDeleting
			return
		}
		s.released = true
	case detached:
		*state = metal3.StateDeleting
	case *state == metal3.StateProvisioning || *state == metal3.StateProvisioned:
		*state = metal3.StateDeprovisioning
	default:
		*state = metal3.StatePoweringOffBeforeDelete
	}
	if s.server != nil {
		s.host.Status.PoweredOn = s.server.Power == bmc.PowerOn
	}
}
