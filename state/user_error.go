package state

// UserError is an error as a person reads it: a command ends with it.
type UserError struct {
	Err  error  // what is wrong
	Hint string // what to do about it; "" where there is nothing to add
	Code int    // the command's exit code; 0 stands for 1
	Said bool   // the command has told it on stdout: nothing more is printed
}

func (e *UserError) Error() string { return e.Err.Error() }
func (e *UserError) Unwrap() error { return e.Err }
