package inventory

import (
	"encoding/json"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// Encryption is the disk encryption of a host that joins an installed cluster.
type Encryption struct {
	TPM bool
	// Tang is the list of Tang servers as JSON, in the format of the agent's steps; "" if there are
	// none.
	Tang string
}

// JoinsEncrypted returns the disk encryption in the ignition config that the host gets from its
// installed cluster. It returns nil if the disk is not encrypted, or the host has not downloaded
// the config yet. The description of the cluster is not used: its encryption may have changed since
// the installation, and imported clusters have none.
func (h *Host) JoinsEncrypted() *Encryption {
	if h.APIConnectivity == nil || !strings.Contains(h.APIConnectivity.Ignition, `"luks"`) {
		return nil
	}
	var config struct {
		Storage struct {
			Luks []struct {
				Clevis *struct {
					TPM2 bool `json:"tpm2"`
					Tang []struct {
						URL        string `json:"url"`
						Thumbprint string `json:"thumbprint"`
					} `json:"tang"`
				} `json:"clevis"`
			} `json:"luks"`
		} `json:"storage"`
	}
	if err := json.Unmarshal([]byte(h.APIConnectivity.Ignition), &config); err != nil {
		return nil // the validation of the download reports this error
	}
	for _, disk := range config.Storage.Luks {
		if disk.Clevis == nil {
			continue
		}
		found := &Encryption{TPM: disk.Clevis.TPM2}
		if len(disk.Clevis.Tang) > 0 {
			list, err := json.Marshal(disk.Clevis.Tang)
			if err != nil {
				return nil
			}
			found.Tang = string(list)
		}
		return found
	}
	return nil
}

// machineConfigFile is the file in a cluster's ignition config that holds the MachineConfig.
const machineConfigFile = "/etc/ignition-machine-config-encapsulated.json"

// JoinsCoreOS returns the operating system image in the ignition config that the host gets from its
// installed cluster. It returns "" if the host has not downloaded the config yet, or the config
// names no image.
func (h *Host) JoinsCoreOS() string {
	if h.APIConnectivity == nil || !strings.Contains(h.APIConnectivity.Ignition, machineConfigFile) {
		return ""
	}
	var config struct {
		Storage struct {
			Files []struct {
				Path     string `json:"path"`
				Contents struct {
					Source string `json:"source"`
				} `json:"contents"`
			} `json:"files"`
		} `json:"storage"`
	}
	if err := json.Unmarshal([]byte(h.APIConnectivity.Ignition), &config); err != nil {
		return "" // the validation of the download reports this error
	}
	for _, file := range config.Storage.Files {
		if file.Path != machineConfigFile {
			continue
		}
		data, err := dataurl.DecodeString(file.Contents.Source)
		if err != nil {
			return ""
		}
		var machineConfig struct {
			Spec struct {
				OSImageURL string `json:"osImageURL"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(data.Data, &machineConfig); err != nil {
			return ""
		}
		return machineConfig.Spec.OSImageURL
	}
	return ""
}
