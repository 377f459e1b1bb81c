package objects

import "strings"

// manifestNames maps the parts of the engine's errors that name fields of the REST API to the names
// of the same fields in an AgentClusterInstall, an InfraEnv or an NMStateConfig. The admission
// stores the default of userManagedNetworking in the object, so the field can't be left out later:
// it has to be set. Texts and names alternate.
var manifestNames = [...]string{
	"cluster-managed networking; leave user_managed_networking out",
	"cluster-managed networking; set spec.networking.userManagedNetworking to false",
	"user-managed networking; leave user_managed_networking out",
	"user-managed networking; set spec.networking.userManagedNetworking to true",
	"user_managed_networking", "spec.networking.userManagedNetworking",
	`platform "none"`, "spec.platformType None",
	`platform "baremetal"`, "spec.platformType BareMetal",
	`platform "external"`, "spec.platformType External",
	"external.cloud_controller_manager", "spec.external.cloudControllerManager",
	"api_vips", "spec.apiVIPs",
	"ingress_vips", "spec.ingressVIPs",
	"no_proxy has", "spec.proxy.noProxy has",
	"mac_interface_map", "spec.interfaces", // of an NMStateConfig
	"openshift_version is missing", "spec.osImageVersion is missing",
}

var manifestReplacer = strings.NewReplacer(manifestNames[:]...)

// InManifest returns an error's text with the field names that a manifest has.
func InManifest(text string) string { return manifestReplacer.Replace(text) }
