package record

// HostDeadline returns the key of a host's deadline.
func HostDeadline(key string) string { return "host/" + key }

// ClusterDeadline returns the key of a cluster's deadline.
func ClusterDeadline(id string) string { return "cluster/" + id }
