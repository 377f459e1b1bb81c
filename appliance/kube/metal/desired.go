package metal

import (
	"encoding/json"
	"strings"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"landfall/appliance/bmc"
)

// serverRequest is the request of a reconcile to the BMC manager for a host's server.
type serverRequest struct {
	desired      *bmc.Desired // nil keeps the state of the server
	hardPowerOff bool         // power the server off without a shutdown of the operating system
	remove       bool
	powerOff     bool // power the server off before its removal
}

// desiredServer derives the request from the spec and the status of a host.
func (s *pass) desiredServer() serverRequest {
	host := s.host
	if host.DeletionTimestamp != nil {
		return s.desiredDeletion()
	}
	if s.annotated(pausedAnnotation) || !host.HasBMCDetails() || credentialsFault(host, s.secret) != "" {
		return serverRequest{}
	}
	desired := bmc.Desired{
		Name: host.Namespace + "/" + host.Name, Owner: "BareMetalHost " + host.Namespace + "/" + host.Name,
		Address: host.Spec.BMC.Address, SkipVerify: host.Spec.BMC.DisableCertificateVerification,
		Username: strings.TrimSpace(string(s.secret.Data["username"])),
		Password: strings.TrimSpace(string(s.secret.Data["password"])),
		BootMAC:  host.Spec.BootMACAddress, BootMode: string(host.Spec.BootMode),
	}
	desired.Detached = host.Status.OperationalStatus == metal3.OperationalStatusDetached
	s.setImageSource(&desired)
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioning:
		desired.Boot = !mustDeprovision(host)
	case metal3.StateProvisioned:
		desired.Boot = !mustDeprovision(host)
		desired.Online = s.desiredPower()
	case metal3.StateAvailable, metal3.StateReady, metal3.StateExternallyProvisioned:
		desired.Online = s.desiredPower()
	}
	if desired.Boot && desired.InfraEnvID == "" && desired.ImageURL == "" {
		desired.Boot = false // without its InfraEnv the server has no image to boot
	}
	return serverRequest{desired: &desired, hardPowerOff: s.hardReboot() && desired.Online != nil && !*desired.Online}
}

// setImageSource sets the source of the server's image. If the server has already booted an image,
// its source stays unchanged, even if the InfraEnv has changed.
func (s *pass) setImageSource(desired *bmc.Desired) {
	spec, had := &s.host.Spec, s.host.Status.Provisioning
	switch {
	case s.server != nil && s.server.Boot && !mustDeprovision(s.host) && (had.Image.URL != "" ||
		had.CustomDeploy != nil):
		desired.InfraEnvID, desired.ImageURL = s.server.InfraEnvID, s.server.ImageURL
	case spec.Image != nil && s.infraEnv != nil && spec.Image.URL == s.infraEnv.Status.ISODownloadURL,
		spec.Image == nil && spec.CustomDeploy != nil:
		desired.InfraEnvID = s.engineID
	case spec.Image != nil:
		desired.ImageURL = spec.Image.URL
	}
}

// desiredPower returns the desired power state; nil keeps the current state. A host that still
// waits for the image of its InfraEnv is not started, because it would boot from its disk.
func (s *pass) desiredPower() *bool {
	waits := s.host.Labels[infraEnvLabel] != "" && !specifiesBoot(s.host) &&
		s.host.Status.Provisioning.State != metal3.StateExternallyProvisioned
	if waits && s.host.Spec.Online {
		return nil
	}
	on := s.host.Spec.Online && !s.rebooting()
	return &on
}

// rebooting reports whether a reboot annotation keeps the server off. An annotation with a key is
// removed by the client that set it.
func (s *pass) rebooting() bool {
	for key := range s.host.Annotations {
		if key == rebootAnnotation || strings.HasPrefix(key, rebootAnnotation+"/") {
			return true
		}
	}
	return false
}

// hardReboot reports whether an annotation requests a hard reboot of a server that is on.
func (s *pass) hardReboot() bool {
	if s.server == nil || s.server.Power == bmc.PowerOff || s.server.Power == bmc.PowerUnknown ||
		s.server.Pending != nil {
		return false
	}
	for key, value := range s.host.Annotations {
		var arguments metal3.RebootAnnotationArguments
		if (key == rebootAnnotation || strings.HasPrefix(key, rebootAnnotation+"/")) && value != "" &&
			json.Unmarshal([]byte(value), &arguments) == nil && arguments.Mode == metal3.RebootModeHard {
			return true
		}
	}
	return false
}

// desiredDeletion returns the request for the server of a host that is being deleted.
func (s *pass) desiredDeletion() serverRequest {
	detached, delays := s.detachment()
	if s.annotated(pausedAnnotation) || delays {
		return serverRequest{}
	}
	return serverRequest{remove: true, powerOff: !detached && !s.keepPower &&
		s.host.Status.OperationalStatus != metal3.OperationalStatusDetached}
}
