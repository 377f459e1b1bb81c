package event

// Names of events. Most names are those of the Assisted Installer, because other programs use them.
// The Assisted Installer has no counterpart of the names marked "ours".
const (
	ClusterRegistered       = "cluster_registration_succeeded"
	ClusterDeregistered     = "cluster_deregistered"
	ClusterStatus           = "cluster_status_updated"
	ClusterPrepared         = "cluster_prepare_installation_started"
	InstallerFiles          = "installer_files_generated" // ours
	PreparationFailed       = "prepare_installation_failed"
	InstallationCanceled    = "cluster_installation_canceled"
	InstallationReset       = "cluster_installation_reset"
	InstallationCompleted   = "cluster_installation_completed"
	InstallationFailed      = "cluster_installation_failed"
	IngressCert             = "ingress_certificate_received" // ours
	FinalizingStage         = "cluster_finalizing_stage_updated"
	OperatorStatus          = "cluster_operator_status"
	InfraEnvRegistered      = "infra_env_registered"
	InfraEnvDeregistered    = "infra_env_deregistered"
	ImageUpdated            = "image_info_updated"
	ImageURLUpdated         = "image_url_updated"     // ours: the short URL
	TokensChanged           = "agent_tokens_changed"  // ours
	MachineRefused          = "machine_refused"       // ours: a token is not accepted
	ConfigFetched           = "sealed_config_fetched" // ours: a machine fetched the config of a sealed image
	HostRegistered          = "host_registration_succeeded"
	HostDeregistered        = "host_deregistered"
	HostStatus              = "host_status_updated"
	HostStage               = "host_install_progress_updated"
	HostBound               = "host_bind_succeeded"
	HostUnbound             = "host_unbind_succeeded"
	HostRole                = "host_role_updated"
	HostBootstrap           = "host_bootstrap_set"
	ValidationFixed         = "host_validation_fixed"
	ValidationFailed        = "host_validation_failed"
	ClusterValidationFixed  = "cluster_validation_fixed"
	ClusterValidationFailed = "cluster_validation_failed"
	LogsUploaded            = "cluster_logs_uploaded"
	HostLogsUploaded        = "host_logs_uploaded"
	MediaDisconnected       = "host_media_disconnected"
	VIPsUpdated             = "api_ingress_vip_updated"
	StageTimedOut           = "host_stage_timed_out"
	FinalizingTimedOut      = "finalizing_stage_timed_out"

	HostCancelled       = "host_installation_cancelled"
	ResetNeedsUser      = "user_required_complete_installation_reset"
	DiskFormatted       = "quick_disk_format_performed"
	DiskNotFormatted    = "quick_disk_format_skipped"
	PreparationTimedOut = "installation_preparing_timed_out"
	OperatorReport      = "cluster_operator_report"
	ImageStatus         = "image_status_updated"
	SlowDisk            = "disk_speed_slower_than_supported"
	ProxyChanged        = "proxy_settings_changed"
	UpgradeStarted      = "upgrade_agent_started"
	UpgradeFinished     = "upgrade_agent_finished"
	UpgradeFailed       = "upgrade_agent_failed"
	StepFailed          = "host_step_failed" // ours

	DeregisterFailed         = "cluster_deregister_failed"
	CancelFailed             = "cancel_installation_failed"
	ResetFailed              = "reset_installation_failed"
	InfraEnvDeregisterFailed = "infra_env_deregister_failed"
	HostRegistrationFailed   = "host_registration_failed"
	BindFailed               = "host_bind_failed"
	UnbindFailed             = "host_unbind_failed"
	HostResetFailed          = "host_installation_reset_failed"

	ValidationsIgnored   = "validations_ignored"
	HostReset            = "host_installation_reset"
	HostInstall          = "host_installation_started"
	ClusterAddsHosts     = "cluster_adding_hosts"
	HostCertificate      = "host_certificate_approved"
	HostJoiningProblem   = "host_joining_problem"
	ManifestAdded        = "custom_manifest_added"
	ManifestChanged      = "custom_manifest_changed"
	ManifestDeleted      = "custom_manifest_deleted"
	MirrorProven         = "mirror_proven"             // ours: the mirror has all images of an installation
	MirrorGaps           = "mirror_gaps_found"         // ours: the mirror lacks images
	MirrorGapsAccepted   = "mirror_gaps_accepted"      // ours: a user accepted the gaps
	ReleaseAllowed       = "release_allowed"           // ours: an administrator allowed the cluster's release
	ReleaseForgotten     = "release_forgotten"         // ours: the release is no longer allowed
	OperatorsSelected    = "cluster_operators_updated" // ours
	Degraded             = "cluster_degraded_OLM_operators_failed"
	SubscriptionUpdated  = "cluster_subscription_updated" // ours
	SubscriptionRefused  = "cluster_subscription_refused"
	InstallConfigApplied = "install_config_applied"
	HostIgnitionApplied  = "host_discovery_ignition_config_applied"
	InstallerArgsApplied = "host_installer_args_applied"

	LeftOut = "events_left_out" // ours
	Removed = "events_removed"  // ours
)
