package description

import (
	"encoding/json"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// diskEncryptionField is the field disk_encryption. A request changes only the parts that it has,
// because clients send one part alone.
func diskEncryptionField() Field[Cluster] {
	f := value("DiskEncryption", func(d *Cluster) **models.DiskEncryption { return &d.API.DiskEncryption })
	f.set = func(d *Cluster, value any) error {
		if conv.Value(d.API.Imported) {
			return invalid("Cluster %s is imported; its own MachineConfig determines the encryption of the disks, so "+
				"leave disk_encryption out.", d.API.Name)
		}
		requested := value.(*models.DiskEncryption)
		var merged models.DiskEncryption
		if d.API.DiskEncryption != nil {
			merged = *d.API.DiskEncryption
		}
		if requested.EnableOn != nil {
			merged.EnableOn = requested.EnableOn
		}
		if requested.Mode != nil {
			merged.Mode = requested.Mode
		}
		if requested.TangServers != "" {
			merged.TangServers = requested.TangServers
		}
		completeDiskEncryption(&merged)
		d.API.DiskEncryption = &merged
		return CheckDiskEncryption(&merged)
	}
	return f
}

// completeDiskEncryption sets the parts that are absent.
func completeDiskEncryption(encryption *models.DiskEncryption) {
	setDefault(&encryption.EnableOn, models.DiskEncryptionEnableOnNone)
	setDefault(&encryption.Mode, models.DiskEncryptionModeTpmv2)
}

// CheckDiskEncryption rejects the mode tang without valid Tang servers. The encryption may be nil.
func CheckDiskEncryption(encryption *models.DiskEncryption) error {
	if encryption == nil || conv.Value(encryption.Mode) != models.DiskEncryptionModeTang {
		return nil
	}
	var servers []struct {
		URL        string `json:"url"`
		Thumbprint string `json:"thumbprint"`
	}
	if encryption.TangServers == "" {
		return invalid("The disk encryption with Tang has no servers; give tang_servers, a JSON list of " +
			"{\"url\": …, \"thumbprint\": …}.")
	}
	if json.Unmarshal([]byte(encryption.TangServers), &servers) != nil || len(servers) == 0 {
		return invalid("The Tang servers %q are not a JSON list of {\"url\": …, \"thumbprint\": …}.",
			encryption.TangServers)
	}
	for _, server := range servers {
		if !isHTTP(server.URL) {
			return invalid("The Tang server %q is not a URL, such as http://tang.example.com:7500.", server.URL)
		}
		if server.Thumbprint == "" {
			return invalid("The Tang server %s has no thumbprint; tang-show-keys on the server shows it.", server.URL)
		}
	}
	return nil
}
