package metal

import (
	"fmt"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects/agentinstall"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/objects"
)

// scene is all that is looked at when a host is reconciled. What is done to it is done to host, and
// is written afterwards.
type pass struct {
	host     *metal3.BareMetalHost
	infraEnv *agentinstall.InfraEnv // nil if the host names none, or one that does not exist
	engineID string                 // the infra-env's in the engine; "" if there is none
	agent    *agentinstall.Agent    // nil if none has registered from the machine
	hostKey  string                 // the agent's in the engine; "" if there is none
	secret   *corev1.Secret         // the BMC's credentials; nil if missing
	image    *metal3.PreprovisioningImage
	server   *bmc.Server // nil before it was asked for
	refusal  string      // why what is wanted of the server can't be asked for
	flow     flow
	now      time.Time
	imageAge time.Duration

	requeueAfter time.Duration // when to look again; 0 for when something changes
	events       []objects.EventContent
	released     bool // nothing is left to be done for the host's deletion
	keepPower    bool // of a host that is being deleted: leave the power as it is

	hasSpokes bool         // somebody reaches into clusters
	drain     drainOutcome // of the host's node, as it is known
	drainNode bool         // the node is to be drained

	restartHost bool // the engine is to be told that the machine is restarted
}

// flow is how BareMetal hosts get their image.
type flow struct {
	converged        bool // by customDeploy and a PreprovisioningImage
	pauseProvisioned bool
}

func (s *pass) annotated(key string) bool {
	_, ok := s.host.Annotations[key]
	return ok
}

func (s *pass) annotate(key, value string) {
	if s.host.Annotations == nil {
		s.host.Annotations = map[string]string{}
	}
	s.host.Annotations[key] = value
}

func (s *pass) removeAnnotations(keys ...string) {
	for _, key := range keys {
		delete(s.host.Annotations, key)
	}
}

func (s *pass) event(component string, warning bool, reason, message string) {
	s.events = append(s.events, objects.EventContent{Component: component, Warning: warning, Reason: reason,
		Message: message})
}

func (s *pass) requeue(after time.Duration) {
	if after > 0 && (s.requeueAfter == 0 || after < s.requeueAfter) {
		s.requeueAfter = after
	}
}

// chooseImage sets what the host is to boot: the image of its InfraEnv, once that is there and has
// settled. An image that was replaced is taken away first, so that the server is powered off and
// boots the new one; not while the machine is being installed. The engine is told before that, so
// that no installation takes a machine that is about to be powered off.
func (s *pass) chooseImage() {
	if s.annotated(detachedAnnotation) {
		return
	}
	if s.infraEnv == nil {
		s.reportMissingInfraEnv()
		return
	}
	if s.flow.converged {
		s.chooseDeployment()
		return
	}
	if !s.annotated(inspectAnnotation) {
		s.annotate(inspectAnnotation, disabled)
	}
	spec := &s.host.Spec
	spec.AutomatedCleaningMode = metal3.CleaningModeDisabled
	url, created := s.infraEnv.Status.ISODownloadURL, s.infraEnv.Status.CreatedTime
	if url == "" || spec.Image != nil && spec.Image.URL == url || busy(s.agent) {
		return
	}
	if created != nil {
		if wait := created.Add(s.imageAge).Sub(s.now); wait > 0 {
			s.requeue(wait)
			return
		}
	}
	switch s.host.Status.Provisioning.State {
	case metal3.StateReady, metal3.StateAvailable:
		format := "live-iso"
		spec.Image = &metal3.Image{URL: url, DiskFormat: &format}
		spec.Online = true
	default:
		if s.restartHost = s.hostKey != "" && spec.Image != nil && waiting(s.agent); !s.restartHost {
			spec.Image = nil
		}
	}
}

// infraEnvComes is how long after a host its InfraEnv may be applied before somebody is told that
// it is missing.
const infraEnvComes = 30 * time.Second

// missInfraEnv tells of the InfraEnv that a host names and that is not there, for which the host
// would wait without a word.
func (s *pass) reportMissingInfraEnv() {
	if wantsBoot(s.host) {
		return
	}
	if wait := s.host.CreationTimestamp.Add(infraEnvComes).Sub(s.now); wait > 0 {
		s.requeue(wait)
		return
	}
	s.event(agentComponent, true, "InfraEnvMissing", fmt.Sprintf(
		"The label %s names the InfraEnv %s, which is not in the namespace %s: the host gets no image to boot until "+
			"it is. Apply it, or correct the label.",
		infraEnvLabel, s.host.Labels[infraEnvLabel], s.host.Namespace))
}

// chooseDeployment has the host deployed by the agent of the image, once a PreprovisioningImage
// says that the image is there.
func (s *pass) chooseDeployment() {
	deploy := s.host.Spec.CustomDeploy
	if deploy != nil && deploy.Method == startAssistedInstall || s.image == nil {
		return
	}
	ready := meta.FindStatusCondition(s.image.Status.Conditions, string(metal3.ConditionImageReady))
	if ready != nil && ready.Status == metav1.ConditionTrue && ready.Reason == infraEnvAvailable {
		s.host.Spec.CustomDeploy = &metal3.CustomDeploy{Method: startAssistedInstall}
	}
}

// wantsBoot tells whether something is given for the host to boot.
func wantsBoot(host *metal3.BareMetalHost) bool {
	image, deploy := host.Spec.Image, host.Spec.CustomDeploy
	return image != nil && image.URL != "" || deploy != nil && deploy.Method != ""
}

// mustDeprovision tells whether the host was given something else to boot than what it was
// provisioned with, or nothing.
func mustDeprovision(host *metal3.BareMetalHost) bool {
	had, deployed := host.Status.Provisioning.Image.URL, host.Status.Provisioning.CustomDeploy
	image, deploy := host.Spec.Image, host.Spec.CustomDeploy
	if had != "" && (image == nil || image.URL != had) {
		return true
	}
	return deployed != nil && (deploy == nil || deploy.Method != deployed.Method)
}
