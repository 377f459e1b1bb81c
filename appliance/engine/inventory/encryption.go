package inventory

import (
	"encoding/json"
	"strings"
)

// Encryption is how a host that joins an installed cluster encrypts its disk.
type Encryption struct {
	TPM bool
	// Tang is the list of Tang servers as JSON, in the form in which agents are asked to try them;
	// "" for none.
	Tang string
}

// JoinsEncrypted tells how the ignition config that a host gets from the cluster it joins has it
// encrypt its disk. It is nil when the disk is not encrypted, or the host has not downloaded its
// config yet. What the cluster had at its installation may have changed since, and of an imported
// one nobody here knows it.
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
		return nil // the check of the download says what is wrong with it
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
