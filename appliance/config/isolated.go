package config

// Isolated returns the configuration of the appliance of a rehearsal: that of the site without all
// that listens outside this machine, contacts others, or writes outside the data directory.
func (c Config) Isolated(dataDir string) Config {
	c.Listen, c.BootListen, c.URL, c.DataDir = "127.0.0.1:0", "", nil, dataDir
	c.TLS, c.Auth = TLS{}, AuthNone
	c.AMS, c.Kubernetes, c.Registry = AMS{}, Kubernetes{}, Registry{}
	c.Hosted, c.Site, c.Backup = Hosted{}, Site{}, Backup{}
	c.Replica, c.Fleet = Replica{}, Fleet{}
	c.Audit, c.Profiling = Audit{Bytes: c.Audit.Bytes}, Profiling{}
	c.Tracing = Tracing{}
	return c
}
