package dataversion

// Observed returns the directory with a function that is called after each step of a migration.
func (d Directory) Observed(reached func(step string) error) Directory {
	d.reached = reached
	return d
}
