package record

func HostDeadline(key string) string { return "host/" + key }

func ClusterDeadline(id string) string { return "cluster/" + id }
