package clusters

import (
	"slices"
	"time"

	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file does the work of Hive's controllers for a ClusterDeployment that is installed by an
// AgentClusterInstall (openshift/hive, pkg/controller/clusterdeployment/clusterinstalls.go). Other
// parts of Hive are not implemented.

const (
	reasonInitialized   = "Initialized"
	messageInitialized  = "Condition Initialized"
	reasonProvisioning  = "Provisioning"
	reasonProvisioned   = "Provisioned"
	reasonStopped       = "ProvisionStopped"
	reasonDeprovision   = "Deprovisioning"
	reasonHiveError     = "Error"
	reasonImageSetThere = "ClusterImageSetFound"
	reasonImageSetGone  = "ClusterImageSetNotFound"
)

// hiveConditions are the conditions that Hive sets when it first reconciles a ClusterDeployment.
var hiveConditions = []hivev1.ClusterDeploymentConditionType{
	hivev1.ClusterInstallFailedClusterDeploymentCondition, hivev1.ClusterInstallCompletedClusterDeploymentCondition,
	hivev1.ClusterInstallStoppedClusterDeploymentCondition,
	hivev1.ClusterInstallRequirementsMetClusterDeploymentCondition,
	hivev1.ClusterImageSetNotFoundCondition, hivev1.ProvisionFailedCondition, hivev1.ProvisionStoppedCondition,
	hivev1.ProvisionedCondition,
	hivev1.RequirementsMetCondition,
}

// copiedConditions are copied from the AgentClusterInstall.
var copiedConditions = []struct {
	from hivev1.ClusterInstallConditionType
	to   []hivev1.ClusterDeploymentConditionType
}{
	{hivev1.ClusterInstallFailed,
		[]hivev1.ClusterDeploymentConditionType{hivev1.ClusterInstallFailedClusterDeploymentCondition,
			hivev1.ProvisionFailedCondition}},
	{hivev1.ClusterInstallCompleted,
		[]hivev1.ClusterDeploymentConditionType{hivev1.ClusterInstallCompletedClusterDeploymentCondition}},
	{hivev1.ClusterInstallStopped,
		[]hivev1.ClusterDeploymentConditionType{hivev1.ClusterInstallStoppedClusterDeploymentCondition}},
	{hivev1.ClusterInstallRequirementsMet,
		[]hivev1.ClusterDeploymentConditionType{hivev1.ClusterInstallRequirementsMetClusterDeploymentCondition,
			hivev1.RequirementsMetCondition}},
}

// hiveCondition is a condition of a ClusterDeployment without its times.
type hiveCondition struct {
	kind            hivev1.ClusterDeploymentConditionType
	status          corev1.ConditionStatus
	reason, message string
}

// setHiveConditions sets conditions. It updates the times of a condition if its status, reason or
// message changes.
func setHiveConditions(cd *hivev1.ClusterDeployment, now time.Time, conditions ...hiveCondition) {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	for _, c := range conditions {
		fresh := hivev1.ClusterDeploymentCondition{Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
			LastProbeTime: at, LastTransitionTime: at}
		i := slices.IndexFunc(cd.Status.Conditions,
			func(h hivev1.ClusterDeploymentCondition) bool { return h.Type == c.kind })
		switch {
		case i < 0:
			cd.Status.Conditions = append(cd.Status.Conditions, fresh)
		case cd.Status.Conditions[i].Status != c.status || cd.Status.Conditions[i].Reason != c.reason ||
			cd.Status.Conditions[i].Message != c.message:
			cd.Status.Conditions[i] = fresh
		}
	}
}

// initHiveConditions sets the missing conditions of a ClusterDeployment to unknown.
func initHiveConditions(cd *hivev1.ClusterDeployment, now time.Time) {
	for _, kind := range hiveConditions {
		if !slices.ContainsFunc(cd.Status.Conditions,
			func(c hivev1.ClusterDeploymentCondition) bool { return c.Type == kind }) {
			setHiveConditions(cd, now, hiveCondition{kind, corev1.ConditionUnknown, reasonInitialized,
				messageInitialized})
		}
	}
}

// copyInstall updates a ClusterDeployment from its AgentClusterInstall, as Hive does.
func copyInstall(cd *hivev1.ClusterDeployment, aci *hiveext.AgentClusterInstall, now time.Time) {
	initHiveConditions(cd, now)
	if m := aci.Spec.ClusterMetadata; m != nil && m.ClusterID != "" && m.InfraID != "" &&
		m.AdminKubeconfigSecretRef.Name != "" && m.AdminPasswordSecretRef != nil &&
		m.AdminPasswordSecretRef.Name != "" {
		cd.Spec.ClusterMetadata = m.DeepCopy()
	}
	for _, copied := range copiedConditions {
		from := installConditionOf(aci, copied.from)
		if from.Type == "" {
			continue
		}
		for _, to := range copied.to {
			setHiveConditions(cd, now, hiveCondition{to, from.Status, from.Reason, from.Message})
		}
	}
	holds := func(kind hivev1.ClusterInstallConditionType) bool {
		return installConditionOf(aci, kind).Status == corev1.ConditionTrue
	}
	isFailed, isCompleted, isStopped := holds(hivev1.ClusterInstallFailed), holds(hivev1.ClusterInstallCompleted),
		holds(hivev1.ClusterInstallStopped)
	if met := installConditionOf(aci, hivev1.ClusterInstallRequirementsMet); met.Status == corev1.ConditionTrue &&
		cd.Status.InstallStartedTimestamp == nil {
		started := met.LastTransitionTime
		cd.Status.InstallStartedTimestamp = &started
	}
	if s := installConditionOf(aci, hivev1.ClusterInstallStopped); s.Type != "" {
		stop := hiveCondition{hivev1.ProvisionStoppedCondition, s.Status, s.Reason, s.Message}
		if isStopped && isFailed && !isCompleted {
			stop.reason, stop.message = "InstallAttemptsLimitReached", "Install attempts limit reached"
		}
		setHiveConditions(cd, now, stop)
	}
	setHiveConditions(cd, now, provisioned(isStopped, isCompleted, isFailed))
	if isStopped && isCompleted && !isFailed {
		cd.Spec.Installed = true
		if cd.Status.InstalledTimestamp == nil {
			at := installConditionOf(aci, hivev1.ClusterInstallCompleted).LastTransitionTime
			cd.Status.InstalledTimestamp = &at
		}
	}
}

func provisioned(isStopped, isCompleted, isFailed bool) hiveCondition {
	kind := hivev1.ProvisionedCondition
	switch {
	case !isStopped && !isCompleted && !isFailed:
		return hiveCondition{kind, corev1.ConditionFalse, reasonProvisioning, "Provisioning in progress"}
	case isStopped && isCompleted && !isFailed:
		return hiveCondition{kind, corev1.ConditionTrue, reasonProvisioned, "Cluster is provisioned"}
	case isStopped && isFailed:
		return hiveCondition{kind, corev1.ConditionFalse, reasonStopped,
			"Provisioning failed terminally (see the ProvisionStopped condition for details)"}
	}
	return hiveCondition{kind, corev1.ConditionUnknown, reasonHiveError,
		"Invalid ClusterInstall conditions. Please report this bug."}
}
