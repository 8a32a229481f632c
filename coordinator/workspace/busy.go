package workspace

// The reasons for which a workspace that is not in use stays awake: values of [Busy.Reason].
const (
	// BusyCommand: a command that the settings list, such as a coding agent, is in the
	// foreground of a terminal.
	BusyCommand = "KeepAwakeCommand"
	// BusyTerminal: the foreground program of a terminal prints, writes or computes.
	BusyTerminal = "TerminalJob"
	// BusyBackground: a program that was started from a terminal or as a daemon is computing.
	BusyBackground = "BackgroundJob"
	// BusyKernel: a notebook's kernel computes.
	BusyKernel = "NotebookKernel"
	// BusyFile: a program has reported work through the file ~/.codehub/busy.
	BusyFile = "BusyFile"
	// BusyImage: the command that the image names has reported work.
	BusyImage = "ImageCommand"
	// BusyNoAnswer: it is unknown whether the workspace is busy, because the backend or the image's command does not
	// answer.
	BusyNoAnswer = "NoAnswer"
)
