int no_licence();
