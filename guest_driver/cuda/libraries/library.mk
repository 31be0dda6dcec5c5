# One library of the toolkit, made by the toolkit's own mynvcc: lib64/lib$(NAME).so.$(MAJORS), in the order of the CUDA
# generations 11, 12 and 13 whose libcudart they use, since a process has one runtime. NVIDIA's libraries give each
# symbol the soname as its version. Its Makefile sets NAME, MAJORS, GENERATIONS (if not all), SYMBOLS, and NEEDS: the
# library that each of MAJORS uses, if any. Its static archive is a linker script that brings in the shared library: device
# code is compiled when programs run, and one library of that kind serves all. Libraries find one another in their own folder,
# wherever the toolkit is installed: mynvcc, which links programs, would have them name the folder of this toolkit.
TOOLKIT := ../../build/toolkit
NVCC := $(TOOLKIT)/bin/mynvcc
BUILD ?= build
GENERATIONS ?= 11.0 12 13
SOURCES := $(sort $(wildcard *.cu *.cpp))
OBJECTS := $(SOURCES:%=$(BUILD)/%.o)
HEADERS := $(wildcard *.h) $(HEADERS_OF_API) $(HEADERS_OF_OTHERS)
needed_by = $(if $(NEEDS),$(TOOLKIT)/lib64/$(word $(call place_of,$(1)),$(NEEDS)))
TARGETS := $(MAJORS:%=$(TOOLKIT)/lib64/lib$(NAME).so.%)
place_of = $(words $(filter-out after,$(shell for i in $(MAJORS); do echo $$i; [ $$i = $(1) ] && break; done)))
NVCCFLAGS_ALL := -std=c++17 -O2 -I. -I../include -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror

all: $(TARGETS) $(TOOLKIT)/lib64/lib$(NAME).so $(TOOLKIT)/lib64/lib$(NAME)_static.a $(HEADERS_OF_API:../include/%=$(TOOLKIT)/include/%)

$(TOOLKIT)/include/%: ../include/%
	cp $< $@

$(BUILD)/%.o: % $(HEADERS) Makefile ../library.mk $(NVCC)
	@mkdir -p $(BUILD)
	$(NVCC) $(NVCCFLAGS_ALL) -c -o $@ $<

$(BUILD)/%.map: Makefile ../library.mk
	@mkdir -p $(BUILD)
	printf 'lib$(NAME).so.%s {\n global: $(SYMBOLS);\n local: *;\n};\n' $* > $@

$(TARGETS): $(TOOLKIT)/lib64/lib$(NAME).so.%: $(OBJECTS) $(BUILD)/%.map $(addprefix $(TOOLKIT)/lib64/,$(NEEDS))
	$(CXX) -shared -o $@.new $(OBJECTS) -Wl,-soname,lib$(NAME).so.$*,--version-script,$(BUILD)/$*.map,--no-undefined -Wl,-rpath,'$$ORIGIN' \
		$(call needed_by,$*) $(TOOLKIT)/lib64/libcudart.so.$(word $(call place_of,$*),$(GENERATIONS)) -lpthread
	mv $@.new $@

$(TOOLKIT)/lib64/lib$(NAME).so: $(TARGETS)
	ln -sf lib$(NAME).so.$(DEFAULT) $@

$(TOOLKIT)/lib64/lib$(NAME)_static.a: Makefile ../library.mk
	echo 'INPUT(-l$(NAME))' > $@

clean:
	rm -rf $(BUILD) $(TOOLKIT)/lib64/lib$(NAME).so* $(TOOLKIT)/lib64/lib$(NAME)_static.a

.PHONY: all clean
.SECONDARY:
