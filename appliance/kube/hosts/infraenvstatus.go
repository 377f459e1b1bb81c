package hosts

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
)

const (
	infraEnvFinalizer     = "infraenv.agent-install.openshift.io/ai-deprovision"
	annotationPropagate   = "infraenv.agent-install.openshift.io/propagate-node-labels"
	conditionImageCreated = "ImageCreated"
	reasonImageError      = "ImageCreationError"
	// type of the iPXE scripts that boot an installed machine from its disk
	bootOrderControl = "BootOrderControl"
)

// imageAvailable is the condition of an InfraEnv whose image can be downloaded. imageBeingMade is
// the condition while the agent's image is looked up in the release payload.
func imageAvailable() agentinstall.Condition {
	return agentinstall.Condition{Type: conditionImageCreated, Status: corev1.ConditionTrue,
		Reason: "InfraEnvAvailable", Message: "InfraEnv is available: Image has been created"}
}

func imageBeingMade() agentinstall.Condition {
	return agentinstall.Condition{Type: conditionImageCreated, Status: corev1.ConditionTrue, Reason: "ImageCreated",
		Message: "Image has been created"}
}

// imageFault is the condition of an InfraEnv whose image can't be made, because of an invalid
// input or of an error that may pass.
func imageFault(failure error, input bool) agentinstall.Condition {
	c := agentinstall.Condition{Type: conditionImageCreated, Status: corev1.ConditionFalse, Reason: reasonImageError,
		Message: "Failed to create image due to an internal error: " + failure.Error()}
	if input {
		c.Message = "Failed to create image: " + objects.InManifest(failure.Error())
	}
	return c
}

func clusterMissing(reason string) agentinstall.Condition {
	return agentinstall.Condition{Type: conditionImageCreated, Status: corev1.ConditionUnknown,
		Reason: "MissingClusterDeployment", Message: "ClusterDeployment is missing: " + reason}
}

// setInfraEnvStatus writes an infra-env into the status of its InfraEnv. The URL of the image
// changes if and only if the content of the image changes; createdTime is the time of that change.
// A false condition stays until the InfraEnv is reconciled without an error. Without an image, the
// URLs of former boot files stay, but the script's URL changes with its code, which may expire.
func setInfraEnvStatus(object *agentinstall.InfraEnv, env *view.InfraEnv, by Projector,
	now time.Time) error {
	is, serviceURL := &object.Status, by.URL
	is.AgentLabelSelector = metav1.LabelSelector{MatchLabels: map[string]string{labelInfraEnv: object.Name}}
	id := env.ID.String()
	is.DebugInfo.EventsURL = serviceURL + restRoot + "/events?" + url.Values{"infra_env_id": {id}}.Encode()
	is.DebugInfo.StaticNetworkDownloadURL = ""
	if env.StaticNetworkConfig != "" {
		is.DebugInfo.StaticNetworkDownloadURL = fileURL(serviceURL, env, "static-network-config", "")
	}
	failed := slices.ContainsFunc(is.Conditions, func(c agentinstall.Condition) bool {
		return c.Type == conditionImageCreated && c.Status == corev1.ConditionFalse
	})
	if failed || env.Recipe == "" {
		is.ISODownloadURL, is.CreatedTime = "", nil
		if is.BootArtifacts != (agentinstall.BootArtifacts{}) {
			is.BootArtifacts.IpxeScriptURL = scriptURL(object, env, by, now)
		}
		if !failed {
			is.Conditions = setAgentCondition(is.Conditions, now, imageBeingMade())
		}
		return nil
	}
	image, err := imageURL(serviceURL, env)
	if err != nil {
		return err
	}
	if image != is.ISODownloadURL {
		created := metav1.NewTime(now.UTC().Truncate(time.Second))
		is.ISODownloadURL, is.CreatedTime = image, &created
	}
	is.BootArtifacts = artifactsOf(object, env, by, now)
	is.Conditions = setAgentCondition(is.Conditions, now, imageAvailable())
	return nil
}

// imageURL returns the URL of an infra-env's image in the format of the image service. The token
// contains the infra-env and the revision of its image, so that each image has its own URL.
func imageURL(serviceURL string, env *view.InfraEnv) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "none", "typ": "JWT"})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]string{"infra_env_id": env.ID.String(), "image": env.Recipe})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	file := "full.iso"
	if *env.Type == models.ImageTypeMinimalIso {
		file = "minimal.iso"
	}
	token := env.Token
	if token == "" {
		token = encode(header) + "." + encode(claims) + "." + encode([]byte(env.Recipe[:min(len(env.Recipe), 12)]))
	}
	return serviceURL + "/byapikey/" + token + "/" + env.OpenshiftVersion + "/" + env.CPUArchitecture + "/" + file, nil
}

func artifactsOf(object *agentinstall.InfraEnv, env *view.InfraEnv, by Projector,
	now time.Time) agentinstall.BootArtifacts {
	query := "?" + url.Values{"arch": {env.CPUArchitecture}, "version": {env.OpenshiftVersion}}.Encode()
	bootURL := by.URL
	if by.bootsApart() {
		bootURL = by.BootURL
	}
	return agentinstall.BootArtifacts{
		KernelURL:            bootURL + "/boot-artifacts/kernel" + query,
		RootfsURL:            bootURL + "/boot-artifacts/rootfs" + query,
		InitrdURL:            initrdURL(bootURL, env),
		IpxeScriptURL:        scriptURL(object, env, by, now),
		DiscoveryIgnitionURL: fileURL(by.URL, env, "discovery.ign", ""),
	}
}

// scriptURL returns the URL of an infra-env's iPXE script; "" if boot loaders need a code for it,
// but the code was revoked or has expired.
func scriptURL(object *agentinstall.InfraEnv, env *view.InfraEnv, by Projector, now time.Time) string {
	script := ""
	if object.Spec.IPXEScriptType == bootOrderControl {
		script = "boot-order-control"
	}
	if !by.bootsApart() {
		return fileURL(by.URL, env, "ipxe-script", script)
	}
	path := env.ScriptPath(script, now)
	if path == "" {
		return ""
	}
	return by.BootURL + path
}

// initrdURL returns the URL of an infra-env's initial RAM disk. Its query names the revision of the
// image, so that the URL changes with the content.
func initrdURL(bootURL string, env *view.InfraEnv) string {
	path := env.InitrdPath()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return bootURL + path + separator + url.Values{"image": {env.Recipe[:min(len(env.Recipe), 12)]}}.Encode()
}

func fileURL(serviceURL string, env *view.InfraEnv, name, script string) string {
	query := url.Values{"file_name": {name}}
	if env.Token != "" {
		query.Set("api_key", env.Token)
	}
	if script != "" {
		query.Set("ipxe_script_type", script)
	}
	return serviceURL + restRoot + "/infra-envs/" + env.ID.String() + "/downloads/files?" + query.Encode()
}
